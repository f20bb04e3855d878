# SPDX-License-Identifier: BSD-2-Clause
"""What engines print while they start, as data by engine kind and pure functions over log text (R6, P13).

Private to llmgw. Logs are other programs' words: any bytes are read in bounded time, and what is not understood is
unknown. The wording follows vLLM 0.5 to 0.33, SGLang 0.4 to 0.5.23, llama.cpp to b11549, and llmgw's simulator.
"""
