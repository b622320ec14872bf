# Sentences of `onecard verdict`.
