// GGUF files of the golden published models, read by a reader that shares nothing with the writer: every
// number of every tensor, the order of rotary pairs, the fields, and what is refused.
#include "checkpoint/published/export_gguf.h"

#include "published_for_tests.h"
#include "support/gguf_reader.h"

namespace longhaul::checkpoint {
namespace {

using ::longhaul::testing::GgufRead;

class Gguf : public PublishedTest {
 protected:
  GgufRead exported(const std::string& golden, storage::GgufType type = storage::GgufType::kF16) {
    const fs::path run = folder_.path() / ("run-" + golden),
                   out = folder_.path() / (golden + std::to_string(static_cast<int>(type)) + ".gguf");
    if (!fs::exists(run)) import_model(kGolden / golden / "model", run);
    report_ = export_gguf(run, out, type);
    GgufRead read(read_text(out));
    EXPECT_EQ(report_.bytes, static_cast<int64_t>(read.file.size()));
    EXPECT_EQ(report_.tensors, static_cast<int64_t>(read.tensors.size()));
    return read;
  }
  static std::vector<double> published(const std::string& golden, const std::string& name) {
    const Tensor tensor =
        read_tensor(kGolden / golden / "model" / "model.safetensors", name).to(at::kDouble).contiguous();
    return {tensor.const_data_ptr<double>(), tensor.const_data_ptr<double>() + tensor.numel()};
  }
  // Half of an f16's last bit at most.
  static void expect_halves(const std::vector<double>& found, const std::vector<double>& expected,
                            const std::string& name) {
    ASSERT_EQ(found.size(), expected.size()) << name;
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_LE(std::fabs(found[i] - expected[i]),
                std::fabs(expected[i]) * std::ldexp(1, -11) + std::ldexp(1, -25))
          << name << " " << i;
    }
  }
  // Rows of each head: those of pair j, (j, j + d/2), become neighbours.
  static std::vector<double> in_pairs(const std::vector<double>& matrix, size_t heads, size_t columns) {
    const size_t width = matrix.size() / columns / heads;
    std::vector<double> made(matrix.size());
    for (size_t head = 0; head < heads; ++head) {
      for (size_t row = 0; row < width; ++row) {
        const size_t to = row < width / 2 ? 2 * row : 2 * (row - width / 2) + 1;
        for (size_t c = 0; c < columns; ++c)
          made[(head * width + to) * columns + c] = matrix[(head * width + row) * columns + c];
      }
    }
    return made;
  }
  GgufReport report_;
};

TEST_F(Gguf, LlamaHasItsRotaryPairsNextToEachOther) {
  const GgufRead read = exported("llama");
  const nlohmann::json config = config_of(kGolden / "llama" / "model");
  const auto heads = config["num_attention_heads"].get<size_t>(),
             kv_heads = config["num_key_value_heads"].get<size_t>();
  const auto hidden = config["hidden_size"].get<size_t>();
  EXPECT_EQ(read.texts.at("general.architecture"), "llama");
  EXPECT_EQ(read.integers.at("llama.block_count"), config["num_hidden_layers"].get<uint64_t>());
  EXPECT_EQ(read.integers.at("llama.embedding_length"), hidden);
  EXPECT_EQ(read.integers.at("llama.attention.head_count"), heads);
  EXPECT_EQ(read.integers.at("llama.attention.head_count_kv"), kv_heads);
  EXPECT_EQ(read.integers.at("llama.feed_forward_length"), config["intermediate_size"].get<uint64_t>());
  EXPECT_EQ(read.integers.at("llama.context_length"), config["max_position_embeddings"].get<uint64_t>());
  EXPECT_NEAR(read.numbers.at("llama.attention.layer_norm_rms_epsilon"), config["rms_norm_eps"].get<double>(),
              1e-12);
  const std::string layer = "model.layers.1.self_attn.";
  expect_halves(read.values("blk.1.attn_q.weight"),
                in_pairs(published("llama", layer + "q_proj.weight"), heads, hidden), "q");
  expect_halves(read.values("blk.1.attn_k.weight"),
                in_pairs(published("llama", layer + "k_proj.weight"), kv_heads, hidden), "k");
  expect_halves(read.values("blk.1.attn_v.weight"), published("llama", layer + "v_proj.weight"), "v");
  expect_halves(read.values("blk.0.attn_output.weight"),
                published("llama", "model.layers.0.self_attn.o_proj.weight"), "o");
  expect_halves(read.values("blk.0.ffn_down.weight"),
                published("llama", "model.layers.0.mlp.down_proj.weight"), "down");
  expect_halves(read.values("token_embd.weight"), published("llama", "model.embed_tokens.weight"),
                "embedding");
  EXPECT_EQ(read.values("blk.1.ffn_norm.weight"),
            published("llama", "model.layers.1.post_attention_layernorm.weight"))
      << "vectors stay fp32";
  EXPECT_EQ(read.tensors.at("blk.0.ffn_down.weight").sizes,
            (std::vector<uint64_t>{config["intermediate_size"].get<uint64_t>(), hidden}));
  EXPECT_TRUE(read.tensors.contains("output.weight"));
  EXPECT_FALSE(exported("llama-tied").tensors.contains("output.weight")) << "the embedding serves";
}

TEST_F(Gguf, Qwen3IsAsItIsPublished) {
  const GgufRead read = exported("qwen3");
  const nlohmann::json config = config_of(kGolden / "qwen3" / "model");
  EXPECT_EQ(read.texts.at("general.architecture"), "qwen3");
  EXPECT_EQ(read.integers.at("qwen3.attention.key_length"), config["head_dim"].get<uint64_t>());
  expect_halves(read.values("blk.0.attn_q.weight"),
                published("qwen3", "model.layers.0.self_attn.q_proj.weight"), "q");
  EXPECT_EQ(read.values("blk.0.attn_k_norm.weight"),
            published("qwen3", "model.layers.0.self_attn.k_norm.weight"));
}

TEST_F(Gguf, ExpertsOfALayerAreOneTensor) {
  const GgufRead read = exported("qwen3-moe-tied");
  const nlohmann::json config = config_of(kGolden / "qwen3-moe-tied" / "model");
  EXPECT_EQ(read.integers.at("qwen3moe.expert_count"),
            read.tensors.at("blk.0.ffn_down_exps.weight").sizes[2]);
  EXPECT_EQ(read.integers.at("qwen3moe.expert_feed_forward_length"),
            config["moe_intermediate_size"].get<uint64_t>());
  const std::vector<double> all = read.values("blk.0.ffn_gate_exps.weight");
  const size_t experts = read.integers.at("qwen3moe.expert_count"), of_one = all.size() / experts;
  for (size_t expert = 0; expert < experts; ++expert) {
    const std::vector<double> one(all.begin() + static_cast<int64_t>(expert * of_one),
                                  all.begin() + static_cast<int64_t>((expert + 1) * of_one));
    expect_halves(one,
                  published("qwen3-moe-tied",
                            "model.layers.0.mlp.experts." + std::to_string(expert) + ".gate_proj.weight"),
                  "expert");
  }
  EXPECT_EQ(read.tensors.at("blk.0.ffn_gate_inp.weight").type, 0U) << "routers stay fp32";
}

TEST_F(Gguf, Gpt2sMatricesAreTurned) {
  const GgufRead read = exported("gpt2");
  const nlohmann::json config = config_of(kGolden / "gpt2" / "model");
  const auto hidden = config["n_embd"].get<size_t>();
  const fs::path file = kGolden / "gpt2" / "model" / "model.safetensors";
  const Tensor stored =
      read_tensor(file, "transformer.h.0.attn.c_attn.weight").t().to(at::kDouble).contiguous();
  expect_halves(read.values("blk.0.attn_qkv.weight"),
                {stored.const_data_ptr<double>(), stored.const_data_ptr<double>() + stored.numel()}, "qkv");
  EXPECT_EQ(read.tensors.at("blk.0.attn_qkv.weight").sizes, (std::vector<uint64_t>{hidden, 3 * hidden}));
  EXPECT_EQ(read.tensors.at("position_embd.weight").type, 0U);
}

TEST_F(Gguf, RowsThatDoNotDivideIntoBlocksStayHalves) {
  const GgufRead read = exported("llama", storage::GgufType::kQ8_0);
  EXPECT_EQ(read.integers.at("general.file_type"), 7U);
  EXPECT_EQ(read.tensors.at("blk.0.ffn_up.weight").type, 1U) << "rows of 12";
  EXPECT_EQ(report_.narrow, 0);
  expect_halves(read.values("blk.0.ffn_up.weight"), published("llama", "model.layers.0.mlp.up_proj.weight"),
                "up");
}

TEST_F(Gguf, ScaledFrequenciesAreFactorsOfPairs) {
  // transformers' llama3 scaling, computed here again: wavelengths above original / low are stretched, below
  // original / high kept.
  const nlohmann::json rope = config_of(kGolden / "llama" / "model")["rope_parameters"];
  const double base = rope["rope_theta"], factor = rope["factor"], low = rope["low_freq_factor"],
               high = rope["high_freq_factor"];
  const double original = rope["original_max_position_embeddings"];
  const std::vector<double> found = exported("llama").values("rope_freqs.weight");
  ASSERT_EQ(found.size(), 4U);
  for (size_t j = 0; j < found.size(); ++j) {
    const double wavelength = 2 * 3.14159265358979323846 * std::pow(base, 2.0 * static_cast<double>(j) / 8);
    const double smooth = (original / wavelength - low) / (high - low);
    const double expected = wavelength < original / high  ? 1
                            : wavelength > original / low ? factor
                                                          : 1 / ((1 - smooth) / factor + smooth);
    EXPECT_NEAR(found[j], expected, 1e-5 * expected) << j;
  }
  const GgufRead linear = exported("llama-tied");
  EXPECT_EQ(linear.texts.at("llama.rope.scaling.type"), "linear");
  EXPECT_DOUBLE_EQ(linear.numbers.at("llama.rope.scaling.factor"), 2.5);
}

TEST(QuantizeQ8, EveryNumberIsWithinHalfAStep) {
  std::vector<float> values(32 * 50);
  uint64_t state = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    values[i] = static_cast<float>(static_cast<int64_t>(state >> 20) % 2001 - 1000) *
                std::ldexp(1.0F, static_cast<int>(i / 32 % 20) - 15);
  }
  std::vector<std::byte> blocks(34 * 50);
  quantize_q8_0(values, blocks);
  GgufRead read;
  read.file.assign(reinterpret_cast<const char*>(blocks.data()), blocks.size());
  read.tensors["x"] = {.sizes = {values.size()}, .type = 8};
  const std::vector<double> found = read.values("x");
  for (size_t block = 0; block < found.size(); block += 32) {
    double largest = 0;
    for (size_t i = block; i < block + 32; ++i)
      largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
    for (size_t i = block; i < block + 32; ++i)
      ASSERT_LE(std::fabs(found[i] - values[i]), largest / 254 + largest * std::ldexp(1, -10)) << i;
  }
}

TEST(QuantizeQ8, RoundsHalvesAwayFromZero) {
  std::vector<float> values(32, 0);
  values[0] = 127;
  values[1] = 0.5F;
  values[2] = -0.5F;
  values[3] = 1.49F;
  std::vector<std::byte> block(34);
  quantize_q8_0(values, block);
  EXPECT_EQ(static_cast<int>(block[0]), 0x00);
  EXPECT_EQ(static_cast<int>(block[1]), 0x3C) << "a scale of one";
  for (const auto& [at, q] : {std::pair{0, 127}, {1, 1}, {2, -1}, {3, 1}, {4, 0}})
    EXPECT_EQ(static_cast<int8_t>(block[static_cast<size_t>(at) + 2]), q);
  const std::vector<float> zeros(32, 0);
  quantize_q8_0(zeros, block);
  EXPECT_EQ(block, std::vector<std::byte>(34));
}

TEST_F(Gguf, WhatLlamaCppDoesNotComputeIsRefused) {
  for (const auto& [golden, text] : {std::pair{"minimax", "one of the families"},
                                     {"mamba2", "one of the families"},
                                     {"qwen2-moe-windows", "windows"}}) {
    const fs::path run = folder_.path() / golden, out = folder_.path() / "refused.gguf";
    import_model(kGolden / golden / "model", run);
    EXPECT_THAT(refused([&] { export_gguf(run, out, storage::GgufType::kF16); }), HasSubstr(text)) << golden;
    EXPECT_FALSE(fs::exists(out));
    EXPECT_FALSE(fs::exists(out.string() + ".partial"));
  }
  exported("llama");
  EXPECT_THAT(refused([&] { exported("llama"); }), HasSubstr("taken"));
}

}  // namespace
}  // namespace longhaul::checkpoint
