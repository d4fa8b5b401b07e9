"""Writes a model that real servers load in no time: two layers of random numbers over single characters.

Its words are noise: printable characters that go on until a limit, a grammar or the context ends them. The server around it, its
chat template, its grammar and its errors are real. The template takes one system message, the first, as those of many
models do.

usage: tiny_gguf.py FILE
"""

import sys

import gguf
import numpy

CONTEXT = 8192
WIDTH, HEADS, LAYERS, INNER = 64, 4, 2, 128
PRINTABLE = [chr(code) for code in range(ord(" "), ord("~") + 1)]
# SentencePiece writes a blank so.
BLANK = "\u2581"

# Calls are bare JSON: llama-server makes a grammar of what it finds here.
TEMPLATE = r"""
{%- if tools %}
    {{- '<|tools|>\nCall them as {"name": ..., "parameters": ...}\n' }}
    {%- for tool in tools %}
        {{- tool | tojson + '\n' }}
    {%- endfor %}
    {{- '<|end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'system' and not loop.first %}
        {{- raise_exception('System message must be at the beginning.') }}
    {%- endif %}
    {{- '<|' + message.role + '|>\n' }}
    {%- if message.tool_calls %}
        {%- for call in message.tool_calls %}
            {{- '{"name": "' + call.function.name + '", "parameters": ' + call.function.arguments | tojson + '}' }}
        {%- endfor %}
    {%- elif message.content is string %}
        {{- message.content }}
    {%- endif %}
    {{- '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %}
"""


def vocabulary():
    """The tokens, and of what kind each is."""
    kinds = gguf.TokenType
    tokens = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]
    tokens += [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    tokens += [(BLANK if character == " " else character, kinds.NORMAL) for character in PRINTABLE]
    return tokens


def main():
    tokens = vocabulary()
    random = numpy.random.default_rng(7)

    def noise(*shape):
        numbers = (random.standard_normal(shape) * 0.05).astype(numpy.float32)
        # Nothing that a layer adds changes the first two numbers of a state: see below.
        if shape[0] == WIDTH:
            numbers[:2] = 0
        return numbers

    ones = numpy.ones(WIDTH, numpy.float32)
    embedding, output = noise(len(tokens), WIDTH), noise(len(tokens), WIDTH)
    # The first number of every state is great, and speaks for printable characters alone. Brackets and quotation marks
    # have their own share, so that calls under a grammar begin and end. After a closing bracket, which free text hardly
    # ever has, the model ends: the second number says so.
    number = {token: at for at, (token, _) in enumerate(tokens)}
    embedding[:, 0] = 1
    embedding[:, 1] = 0
    embedding[number["}"], 1] = 4
    output[:, 0] = [2 if kind == gguf.TokenType.NORMAL else -2 for _, kind in tokens]
    output[:, 1] = 0
    output[number["</s>"], 1] = 8
    output[number['"'], 0] = 2.3
    output[number["{"], 0] = 2.2
    output[number["}"], 0] = 0.8

    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token, _ in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([int(kind) for _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", ones)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", noise(WIDTH, WIDTH))
        for name in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", noise(INNER, WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", noise(WIDTH, INNER))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
