# Sentences of `onecard probe`.
