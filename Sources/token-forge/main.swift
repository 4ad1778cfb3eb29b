print("token-forge")
