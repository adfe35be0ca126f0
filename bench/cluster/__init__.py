"""What the benchmarks of several processes share: processes of `prowess serve`, a PostgreSQL that can be restarted, proxies that
break connections, a model, a tool with a witness, and clients that check what they get.

Only loopback is used. Everything that is started ends with the program that started it.
"""
