"""What a run leaves behind and how people read it.

Data flows one way: an experiment fills a `contents.RunContents`; `directory` writes and reads it, `tables` prints it,
`html` draws it and `compare` holds two of them against each other. Nothing here simulates or decides a verdict.
"""
