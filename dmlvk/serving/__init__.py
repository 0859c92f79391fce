"""A server that speaks OpenAI's API: ``dmlvk serve PATH``.

An answer's bytes follow from the model and the request: not from who else asks, from the device, or from the time.
Needs the extra ``serve``: ``pip install dmlvk[serve]``.
"""
