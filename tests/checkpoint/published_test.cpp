// Weights in and out beside `transformers`, without Python: tiny models that it published, with the logits
// and gradients that it computed (tests/golden/make_published_golden.py says which versions).
#include "checkpoint/open_model.h"
#include "checkpoint/published/export.h"
#include "checkpoint/published/published_model.h"
#include "checkpoint/starting_point.h"
#include "model/state.h"
#include "published_for_tests.h"

namespace longhaul::checkpoint {
namespace {

using Published = PublishedTest;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kGolden)) names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

class PublishedGolden : public ::testing::TestWithParam<std::string> {
 protected:
  fs::path golden() const { return kGolden / GetParam(); }
  Tensor expected(const std::string& name) const {
    return read_tensor(golden() / "expected.safetensors", name);
  }
  // Of the loss, and of the balance of experts where `balanced`, against those in `folder`.
  void expect_gradients(const char* folder, const char* loss_name, bool balanced);
  TemporaryFolder folder_;
};

// Both compute in fp32 with weights that were made large: rounding moves a logit by a few 1e-6.
TEST_P(PublishedGolden, LogitsAreThoseOfTransformers) {
  const fs::path imported = folder_.path() / "imported";
  const ImportReport report = import_model(golden() / "model", imported);
  EXPECT_EQ(report.ignored_tensors.empty(),
            // decays of transformers
            !GetParam().starts_with("minimax") || GetParam().starts_with("minimax-original"));
  EXPECT_EQ(report.check.left_out, "");
  const Tensor logits = expected("logits");
  const OpenModel model = open_model(imported, "fp32");
  const Tensor found = logits_of(*model.decoder, expected("ids"));
  EXPECT_LT((found - logits).abs().max().item<double>(), 1e-4);
  EXPECT_TRUE(found.argmax(1).equal(logits.argmax(1)));
  EXPECT_GT(logits.std().item<double>(), 0.1) << "logits that say nothing";

  // All tokens but the last at once, and then that one: keys and values, or states, and nothing else go from
  // one to the other.
  const at::NoGradGuard no_gradient;
  const Tensor ids = expected("ids");
  const int64_t before = ids.size(0) - 1;
  model::DecoderState state = model.decoder->make_state();
  const int64_t row = state.add();
  const auto pass = [&](int64_t first, int64_t count) {
    model::LocalOps ops;
    model::Context context(ops, model.decoder->precision());
    context.training = false;
    const model::DecoderRows continued{state, {row}};
    return model.decoder->logits(model.decoder->hidden(
        context, ids.narrow(0, first, count),
        layout::make_packed(std::vector<int64_t>{count}, std::vector<int64_t>{first}), &continued));
  };
  EXPECT_LT((pass(0, before) - logits.narrow(0, 0, before)).abs().max().item<double>(), 1e-4);
  EXPECT_LT((pass(before, 1)[0] - logits[before]).abs().max().item<double>(), 1e-4);
}

void PublishedGolden::expect_gradients(const char* folder, const char* loss_name, bool balanced) {
  const PublishedModel weights = PublishedModel::open(storage::local_file_system(), golden() / "model");
  const PublishedModel gradients = PublishedModel::open(storage::local_file_system(), golden() / folder);
  recipe::ModelConfig config = weights.config();
  if (!balanced) config.auxiliary_loss = 0;  // the cross-entropy alone
  model::Decoder decoder(config, Precision::named("fp32"));
  for (const auto& parameter : decoder.parameters().all()) {
    for (size_t i = 0; i < parameter->parts.size(); ++i) {
      parameter->part_of(parameter->value.detach(), i)
          .copy_(weights.read(parameter->parts[i].spec.tensor.name));
    }
    parameter->written();
  }
  decoder.parameters().zero_gradients();
  const Tensor ids = expected("ids");
  Tensor labels = ids.roll(-1);
  labels[-1] = layout::kIgnoreLabel;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  const Tensor loss =
      decoder.loss(context, decoder.hidden(context, ids, layout::make_single(ids.size(0))), labels);
  double total = loss.item<double>();
  for (const auto& [block, auxiliary] : context.auxiliary_losses) total += auxiliary.item<double>();
  const double expected_loss = expected(loss_name).item<double>();
  EXPECT_NEAR(total, expected_loss, 1e-5 * expected_loss);
  loss.backward();
  for (const auto& spec : weights.specs()) {
    size_t part = 0;
    const model::Parameter* holder = decoder.parameters().holder_of(spec.tensor.name, &part);
    const Tensor found = holder->part_of(holder->grad, part), wanted = gradients.read(spec.tensor.name);
    const double size = wanted.norm().item<double>();
    // Softmax does not see what is added to all keys alike: the gradient of their bias is zero but for
    // rounding.
    if (spec.tensor.name.ends_with("key.bias")) {
      EXPECT_LT((found - wanted).norm().item<double>(), 1e-3) << spec.tensor.name;
      continue;
    }
    EXPECT_LT((found - wanted).norm().item<double>(), 1e-4 * size) << spec.tensor.name;
    EXPECT_GT(size, 1e-6) << spec.tensor.name;
  }
}

TEST_P(PublishedGolden, GradientsAreThoseOfTransformers) {
  expect_gradients("gradients", "loss", /*balanced=*/false);
}

// Σ over tokens of −log p and, for each of them, router_aux_loss_coef times the balance loss of all layers'
// routers.
TEST_P(PublishedGolden, GradientsOfBalanceAreThoseOfTransformers) {
  if (!fs::exists(golden() / "gradients-balanced"))
    GTEST_SKIP() << "no experts, or none of this model's were written down";
  expect_gradients("gradients-balanced", "loss_balanced", /*balanced=*/true);
}

TEST_P(PublishedGolden, ExportGivesTheSameBytes) {
  import_model(golden() / "model", folder_.path() / "imported");
  const ExportReport report =
      export_model(folder_.path() / "imported", folder_.path() / "exported", std::nullopt);
  EXPECT_EQ(bytes_of_tensors(folder_.path() / "exported"), bytes_of_tensors(golden() / "model"));
  // What it says of itself is read back as the same model.
  const auto files = [](const fs::path& folder) {
    return PublishedModel::open(storage::local_file_system(), folder).config();
  };
  EXPECT_EQ(files(folder_.path() / "exported"), files(golden() / "model"));
  const nlohmann::json before = nlohmann::json::parse(read_text(golden() / "model" / "config.json"));
  const nlohmann::json after = nlohmann::json::parse(read_text(folder_.path() / "exported" / "config.json"));
  for (const auto& [key, value] : before.items()) {
    if (value.is_null() || key == "rope_parameters") continue;
    EXPECT_EQ(after.value(key, nlohmann::json()), value) << key;
  }
  EXPECT_EQ(report.tensors, bytes_of_tensors(golden() / "model").size());

  export_model(folder_.path() / "imported", folder_.path() / "bf16", at::kBFloat16);
  for (const auto& [name, text] : bytes_of_tensors(folder_.path() / "bf16")) {
    const bool router = name.ends_with("block_sparse_moe.gate.weight") && GetParam().starts_with("minimax");
    EXPECT_EQ(text.substr(0, text.find(' ')), router ? "F32" : "BF16") << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PublishedGolden, ::testing::ValuesIn(golden_names()),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// A model that rotates half of each head is another one when whole heads are rotated: the check would see it.
TEST_F(Published, AFullRotaryReadingOfAHalfRotaryModelIsFarAway) {
  const fs::path model = copy_of("minimax-original");
  nlohmann::json config = config_of(model);
  config["rotary_dim"] = config["head_dim"];
  write_config(model, config);
  import_model(model, folder_.path() / "whole");
  const fs::path expected = kGolden / "minimax-original" / "expected.safetensors";
  const Tensor found =
      logits_of(*open_model(folder_.path() / "whole", "fp32").decoder, read_tensor(expected, "ids"));
  EXPECT_GT((found - read_tensor(expected, "logits")).abs().max().item<double>(), 1e-2);
}

// Python's json writes infinities that JSON does not have, and transformers 4 left them so.
TEST_F(Published, InfinityAsPythonWritesItIsReadAndWrittenAsJson) {
  const fs::path model = copy_of("mamba2"), file = model / "config.json";
  std::string text = read_text(file);
  const size_t at = text.find('{', text.find("time_step_limit"));
  ASSERT_NE(at, std::string::npos);
  text.replace(at, text.find('}', at) + 1 - at, "Infinity");
  std::ofstream(file) << text;
  import_model(model, folder_.path() / "imported");
  export_model(folder_.path() / "imported", folder_.path() / "exported", std::nullopt);
  EXPECT_EQ(config_of(folder_.path() / "exported"), config_of(kGolden / "mamba2" / "model"));
}

TEST_F(Published, AnExistingFolderIsNeverReplaced) {
  fs::create_directories(folder_.path() / "there");
  EXPECT_THAT(refused([&] { import_model(kGolden / "llama" / "model", folder_.path() / "there"); }),
              HasSubstr("is there already"));
  import_model(kGolden / "llama" / "model", folder_.path() / "imported");
  EXPECT_THAT(
      refused([&] { export_model(folder_.path() / "imported", folder_.path() / "there", std::nullopt); }),
      HasSubstr("is there already"));
  EXPECT_TRUE(fs::is_empty(folder_.path() / "there"));
}

// Experts of a layer in one tensor each, as transformers has them in memory.
TEST_F(Published, StackedExpertsAreReadAndWrittenAgain) {
  const fs::path model = copy_of("mixtral"), file = model / "model.safetensors";
  const nlohmann::json config = config_of(model);
  const auto experts = config["num_local_experts"].get<int64_t>(),
             hidden = config["hidden_size"].get<int64_t>(),
             width = config["intermediate_size"].get<int64_t>();
  std::map<std::string, Named> by_name;
  for (const Named& tensor : tensors_in(file)) by_name[tensor.name] = tensor;
  for (int64_t l = 0; l < config["num_hidden_layers"].get<int64_t>(); ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".", old = layer + "block_sparse_moe.";
    Named gate_up{layer + "mlp.experts.gate_up_proj", storage::DType::kF32, {experts, 2 * width, hidden}, {}};
    Named down{layer + "mlp.experts.down_proj", storage::DType::kF32, {experts, hidden, width}, {}};
    for (int64_t e = 0; e < experts; ++e) {
      for (const char* part : {"w1", "w3", "w2"}) {
        const std::string name = old + "experts." + std::to_string(e) + "." + part + ".weight";
        std::vector<std::byte>& into = part == std::string("w2") ? down.data : gate_up.data;
        into.insert(into.end(), by_name[name].data.begin(), by_name[name].data.end());
        by_name.erase(name);
      }
    }
    Named router = by_name[old + "gate.weight"];
    by_name.erase(old + "gate.weight");
    router.name = layer + "mlp.gate.weight";
    for (const Named& tensor : {gate_up, down, router}) by_name[tensor.name] = tensor;
  }
  std::vector<Named> stacked;
  for (const auto& [name, tensor] : by_name) stacked.push_back(tensor);
  write_tensors(file, stacked);
  import_model(model, folder_.path() / "imported");
  const fs::path expected = kGolden / "mixtral" / "expected.safetensors";
  const Tensor found =
      logits_of(*open_model(folder_.path() / "imported", "fp32").decoder, read_tensor(expected, "ids"));
  EXPECT_LT((found - read_tensor(expected, "logits")).abs().max().item<double>(), 1e-4);
  export_model(folder_.path() / "imported", folder_.path() / "exported", std::nullopt);
  EXPECT_EQ(bytes_of_tensors(folder_.path() / "exported"), bytes_of_tensors(model));
}

// The golden models have 23 rows. From a report of a tokenizer whose padding token was added above the rows:
// transformers loads such folders.
TEST_F(Published, ATokenAboveTheRowsIsNamedAndTaken) {
  const fs::path model = copy_of("llama"), out = folder_.path() / "out";
  nlohmann::json vocabulary = {{"<s>", 0}, {"</s>", 1}};
  for (int letter = 0; letter < 21; ++letter)
    vocabulary[std::string(1, static_cast<char>('a' + letter))] = 2 + letter;
  const auto added = [](int id, const char* text) {
    return nlohmann::json{{"id", id},        {"content", text}, {"single_word", false}, {"lstrip", false},
                          {"rstrip", false}, {"special", true}, {"normalized", false}};
  };
  const nlohmann::json definition = {
      {"version", "1.0"},
      {"added_tokens", {added(0, "<s>"), added(1, "</s>"), added(23, "<pad>")}},
      {"truncation",
       {{"direction", "Right"}, {"max_length", 16}, {"strategy", "LongestFirst"}, {"stride", 0}}},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  std::ofstream(model / "tokenizer.json") << definition;
  const ImportReport report = import_model(model, out);
  EXPECT_EQ(report.tokenizer,
            "24 entries; a text ends with </s>; 1 of them from id 23 on has no row in the model, and a text "
            "with it is refused; "
            "not applied: truncation");
  const OpenModel opened = open_model(out);
  EXPECT_EQ(data::Tokenizer::load(opened.tokenizer).encode("ab<pad>"), (std::vector<int32_t>{2, 3, 23}));
}

TEST_F(Published, WhatLiesBesideTheWeightsTravelsAlong) {
  const fs::path model = copy_of("llama");
  const std::map<std::string, std::string> beside = {{"chat_template.jinja", "{{ messages }}"},
                                                     {"tokenizer_config.json", "{\"x\": 1}"},
                                                     {"generation_config.json", "{}"},
                                                     {"merges.txt", "a b\n"}};
  for (const auto& [name, text] : beside) std::ofstream(model / name) << text;
  std::ofstream(model / "run_me.py") << "print('no')";
  import_model(model, folder_.path() / "imported");
  const ExportReport report =
      export_model(folder_.path() / "imported", folder_.path() / "exported", std::nullopt);
  for (const auto& [name, text] : beside)
    EXPECT_EQ(read_text(folder_.path() / "exported" / name), text) << name;
  EXPECT_FALSE(fs::exists(folder_.path() / "exported" / "run_me.py"));
}

TEST_F(Published, BothKindsOfStartingPointGiveTheSameWeights) {
  import_model(kGolden / "gpt2" / "model", folder_.path() / "imported");
  const auto folder = StartingPoint::open(kGolden / "gpt2" / "model"),
             checkpoint = StartingPoint::open(folder_.path() / "imported");
  EXPECT_EQ(folder->model(), checkpoint->model());
  // What export writes again as it was travels on from start to start.
  const nlohmann::json imported =
      storage::open_checkpoint(storage::local_file_system(), folder_.path() / "imported")
          .manifest()
          .environment;
  for (const char* const key : {"imported_family", "imported_layout"}) {
    ASSERT_TRUE(imported.contains(key)) << key;
    EXPECT_EQ(checkpoint->origin().value(key, nlohmann::json()), imported.at(key)) << key;
    EXPECT_EQ(folder->origin().value(key, nlohmann::json()), imported.at(key)) << key;
  }
  const auto read = [](const StartingPoint& from) {
    recipe::LoadedRecipe recipe;
    recipe.recipe.model = from.model();
    std::map<std::string, Tensor> found;
    for (const auto& spec : layout::parameters(from.model())) {
      const layout::Rectangle held = layout::Rectangle::whole(spec.tensor.global_shape);
      StateEntry entry{.name = spec.tensor.name,
                       .file = "model",
                       .role = "weight",
                       .shape = spec.tensor.global_shape,
                       .held = held,
                       .view = at::full(held.length, NAN)};
      from.read({entry}, recipe);
      found[spec.tensor.name] = entry.view;
    }
    return found;
  };
  const auto a = read(*folder), b = read(*checkpoint);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(tensor.equal(b.at(name))) << name;
}

}  // namespace
}  // namespace longhaul::checkpoint
