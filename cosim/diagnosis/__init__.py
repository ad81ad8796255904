"""Before replicas are deployed: is a trace's imbalance real, does it last, what would replicas change?"""
