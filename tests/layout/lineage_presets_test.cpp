// Published sizes of the linear lineage: every preset's number of parameters, against the formula of its
// paper and what is printed there.
#include <gtest/gtest.h>

#include <cmath>

#include "layout/parameters.h"
#include "recipe/architecture/presets.h"

namespace longhaul::layout {
namespace {

int64_t count_of(const std::string& preset) { return parameter_count(recipe::preset_model(preset)); }

// Without embedding, head and the norms outside the mixers.
int64_t count_inside(const std::string& preset) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameters(recipe::preset_model(preset))) {
    const bool norm =
        spec.tensor.role == Role::kNorm && spec.tensor.name.find(".mixer.") == std::string::npos;
    if (spec.tensor.role != Role::kEmbedding && spec.tensor.role != Role::kHead && !norm)
      count += spec.elements();
  }
  return count;
}

struct PublishedSize {
  const char* name;
  int64_t layers, hidden, heads, width;
  double published;
};

// arXiv 2307.14995: L(5d² + 3dg) + 50272 d, and d learned angles. Its totals count L·d/2 (2L·d for 385M)
// more.
TEST(LineagePresets, TransNormerLlm) {
  for (const PublishedSize& size : {PublishedSize{"tnl-385m", 24, 1024, 8, 2816, 384'974'848},
                                    {"tnl-1b", 16, 2048, 16, 5632, 992'165'888},
                                    {"tnl-3b", 32, 2560, 20, 6912, 2'876'006'400},
                                    {"tnl-7b", 30, 4096, 32, 11008, 6'780'547'072},
                                    {"tnl-13b", 36, 5120, 40, 13824, 12'620'195'840},
                                    {"tnl-65b", 72, 8192, 64, 22016, 63'528'009'728},
                                    {"tnl-175b", 88, 12288, 96, 32768, 173e9}}) {
    const auto [name, layers, d, heads, g, published] = size;
    EXPECT_EQ(count_of(name), layers * (5 * d * d + 3 * d * g) + 50272 * d + d) << name;
    if (published < 1e11) {
      const int64_t more = layers * d * (d == 1024 ? 4 : 1) / 2;
      EXPECT_EQ(count_of(name) - d + more, static_cast<int64_t>(published)) << name;
    }
    EXPECT_NEAR(static_cast<double>(count_of(name)), published, 3e-3 * published) << name;
  }
  EXPECT_NEAR(static_cast<double>(count_of("tnl-15b")), 14.83e9, 5e6);
}

// arXiv 2406.16690, table 2: millions without embeddings; 12 l d² + 2 l d²/h of linear layers, where g =
// 8d/3.
TEST(LineagePresets, ScalingStudy) {
  for (const auto& [size, tnl, hgrn2, cosformer2] : {std::tuple{"70m", 21.2, 20.5, 21.3},
                                                     {"160m", 87.3, 84.9, 87.5},
                                                     {"410m", 327.7, 334.0, 328.0},
                                                     {"1b", 918.6, 906.0, 919.1},
                                                     {"3b", 2798.4, 2775.5, 2799.0},
                                                     {"7b", 6509.6, 6476.1, 6511.0}}) {
    const std::string name = size;
    const std::string of_tnl = (name.ends_with("m") ? "tnl-" : "tnl-study-") + name;
    const recipe::ModelConfig config = recipe::preset_model(of_tnl);
    const int64_t l = config.layers, d = config.hidden, g = config.intermediate;
    const int64_t t = 128;  // 1B has heads of 96, and the gate of heads of 128
    const int64_t linear = l * (4 * d * d + 2 * d * t + 3 * d * g);
    EXPECT_EQ(count_inside(of_tnl), linear + d) << "and the first layer's angles";
    EXPECT_NEAR(static_cast<double>(linear) / 1e6, tnl, 0.051) << of_tnl;
    EXPECT_NEAR(static_cast<double>(count_inside("hgrn2-" + name)) / 1e6, hgrn2, 0.2)
        << "with a norm over all heads";
    EXPECT_EQ(count_inside("cosformer2-" + name), linear + d * t + t) << "with TPE, d²/h, and its rates";
    EXPECT_NEAR(static_cast<double>(linear + d * t) / 1e6, cosformer2, 2e-3 * cosformer2)
        << "the paper's TPE is d²/h; its table has more";
  }
}

// The study's LLaMA: 12 d² a layer with g of its table, which prints up to 0.25 million more (its norms, and
// rounding).
TEST(LineagePresets, LlamaOfTheScalingStudy) {
  for (const auto& [size, l, d, g, millions] : {std::tuple{"70m", 6LL, 512LL, 1536LL, 20.5},
                                                {"160m", 12LL, 768LL, 2048LL, 85.0},
                                                {"410m", 26LL, 1024LL, 2816LL, 334.1},
                                                {"1b", 32LL, 1536LL, 4096LL, 906.2},
                                                {"3b", 35LL, 2560LL, 6912LL, 2775.8},
                                                {"7b", 32LL, 4096LL, 11008LL, 6476.5}}) {
    const std::string name = std::string("llama-study-") + size;
    EXPECT_EQ(count_inside(name), l * (4 * d * d + 3 * d * g)) << name;
    EXPECT_EQ(count_of(name), l * (4 * d * d + 3 * d * g + 2 * d) + d + 100280 * d) << name;
    EXPECT_NEAR(static_cast<double>(count_of(name) - 100280 * d) / 1e6, millions, 0.25) << name;
  }
}

// arXiv 2402.15627, table 1, as GPTs with biases: 12 d² + 13 d a layer; one norm in place of two where its
// mixers stand beside each other.
TEST(LineagePresets, Megascale) {
  for (const auto& [name, l, d, a_layer] : {std::tuple{"megascale-175b", 96LL, 12288LL, 13LL},
                                            {"megascale-175b-parallel", 96LL, 12288LL, 11LL},
                                            {"megascale-530b", 105LL, 20480LL, 13LL}})
    EXPECT_EQ(count_of(name), l * (12 * d * d + a_layer * d) + (64000 + 2048) * d + 2 * d) << name;
  EXPECT_NEAR(static_cast<double>(count_of("megascale-530b")) / 1e9, 530, 1);
  EXPECT_EQ(recipe::preset_model("megascale-175b-parallel").softmax.windows, std::vector<int64_t>{1024});
}

// Models of associative recall of arXiv 2405.17383: two layers of lcsm alone, 64 rows, widths 32 to 256.
TEST(LineagePresets, LcsmOfRecall) {
  for (const int64_t d : {32, 64, 128, 256}) {
    const int64_t layer =
        // input and output; expand, shrink and oscillation; its norm; the norm before it
        2 * d * d + 3 * 64 * d + 2 * d + d;
    EXPECT_EQ(count_of("lcsm-mqar-" + std::to_string(d)), 2 * layer + 8192 * d + d) << d;
  }
}

// As released: state-spaces/mamba2-130m, and the same formula.
TEST(LineagePresets, Mamba2) {
  EXPECT_EQ(count_of("mamba2-130m"), 128'989'632);
  for (const auto& [name, d, layers] : {std::tuple{"mamba2-130m", 768, 24},
                                        {"mamba2-370m", 1024, 48},
                                        {"mamba2-780m", 1536, 48},
                                        {"mamba2-1.3b", 2048, 48},
                                        {"mamba2-2.7b", 2560, 64}}) {
    const int64_t inner = 2 * d, heads = inner / 64, n = 128;
    const int64_t layer =
        d * (2 * inner + 2 * n + heads) + (inner + 2 * n) * 5 + 3 * heads + inner + inner * d + d;
    EXPECT_EQ(count_of(name), layers * layer + 50288LL * d + d) << name;
  }
}

// Formulas of the papers' layers: GLA 4d² + low-rank gate (+ norm of a head), RetNet 8d² + 4d², LightNet and
// MetaLA of docs/sources/linear-attention.md §8, §9.
TEST(LineagePresets, GatedFamilies) {
  for (const auto& [name, d, g] : {std::tuple{"gla-340m", 1024LL, 2816LL}, {"gla-1.3b", 2048LL, 5632LL}}) {
    const int64_t layer =
        d * (d + 3 * d + d) - d * d + 16 * d + 16 * d / 2 + d / 2 + d / 4 + 3 * d * g + 2 * d;
    EXPECT_EQ(count_of(name), 24 * layer + 2 * 32000 * d + d) << name;
  }
  for (const auto& [name, d, layers] : {std::tuple{"retnet-1.3b", 2048LL, 24LL},
                                        {"retnet-2.7b", 2560LL, 32LL},
                                        {"retnet-6.7b", 4096LL, 32LL}}) {
    EXPECT_EQ(count_of(name), layers * (8 * d * d + 4 * d * d + 2 * d) + 50257 * d + d) << name;
    const double billions = std::stod(std::string(name).substr(7));
    EXPECT_NEAR(static_cast<double>(count_of(name)) / 1e9, billions, 0.05 * billions) << name;
  }
  const int64_t d = 2048, light = 4 * d * d + 2 * d * 128 + d + 3 * d * 5632 + 2 * d;
  EXPECT_EQ(count_of("lightnet-1.3b"), 24 * light + 2 * 32000 * d + d);
  // the gate with its bias
  const int64_t m = 1024, meta = 4 * m + m / 2 * m * 2 + 3 * m * m + m + m / 2 + 3 * m * 2816 + 2 * m;
  EXPECT_EQ(count_of("metala-380m"), 24 * meta + 2 * 50272 * m + m);
  EXPECT_EQ(count_of("hgrn2-340m"),
            24 * (4LL * 1024 * 1024 + 1024 + 3 * 1024 * 2816 + 2048 + 1024) + 2 * 32000 * 1024 + 1024);
}

// Queries and logits of decays begin as the authors' code has them, Xavier with gain 2^−2.5, the rest as the
// model says.
TEST(LineagePresets, MetalaSteersGently) {
  recipe::ModelConfig model = recipe::preset_model("metala-380m");
  model.layers = 2;
  int64_t steering = 0;
  for (const ParameterSpec& spec : parameters(model)) {
    const bool own =
        spec.tensor.name.ends_with("mixer.query.weight") || spec.tensor.name.ends_with("mixer.forget.weight");
    const bool other =
        spec.tensor.name.ends_with("mixer.value.weight") || spec.tensor.name.ends_with("mixer.gate.weight");
    const double expected = own ? 0.1767766952966369 * std::sqrt(2.0 / (1024 + 512)) : 0.02;
    EXPECT_NEAR(spec.init.std, own || other ? expected : spec.init.std, 1e-15) << spec.tensor.name;
    steering += own ? 1 : 0;
  }
  EXPECT_EQ(steering, 4);
}

}  // namespace
}  // namespace longhaul::layout
