# Sentences of `onecard env`.
