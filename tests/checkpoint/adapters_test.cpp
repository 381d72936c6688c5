// Runs with adapters: merged, as PEFT's folders and back; what is refused. The expected weights are worked
// out here.
#include <gtest/gtest.h>

#include "checkpoint/adapters/adapted_run.h"
#include "checkpoint/adapters/peft.h"
#include "checkpoint/adapters/served_adapter.h"
#include "checkpoint/open_model.h"
#include "checkpoint/published/export.h"
#include "checkpoint/published/published_model.h"
#include "layout/adapters.h"
#include "model/served_adapters.h"
#include "published_for_tests.h"

namespace longhaul::checkpoint {
namespace {

constexpr const char* kTarget = "base_model.model.model.layers.";

struct PeftFolder {
  nlohmann::json config = {{"peft_type", "LORA"},
                           {"r", 2},
                           {"lora_alpha", 6},
                           {"bias", "none"},
                           {"target_modules", {"q_proj", "down_proj"}}};
  std::map<std::string, Tensor> tensors;

  void write(const fs::path& folder) const {
    fs::create_directories(folder);
    std::ofstream(folder / "adapter_config.json") << config;
    std::vector<storage::TensorInfo> infos;
    for (const auto& [name, tensor] : tensors)
      infos.push_back({.name = name, .dtype = storage::DType::kF32, .shape = tensor.sizes().vec()});
    storage::SafetensorsWriter writer(storage::local_file_system(), folder / "adapter_model.safetensors",
                                      infos);
    for (const storage::TensorInfo& info : writer.tensors()) {
      const Tensor& tensor = tensors.at(info.name);
      writer.write(
          {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())});
    }
    writer.finish();
  }
};

// Beside q_proj and down_proj of every layer of the golden llama.
PeftFolder peft_of(const PublishedModel& model, bool dora = false) {
  PeftFolder folder;
  if (dora) folder.config["use_dora"] = true;
  auto generator = at::detail::createCPUGenerator(7);
  const auto random = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, generator, at::TensorOptions().dtype(at::kFloat)).mul(0.2);
  };
  for (int64_t l = 0; l < model.config().layers; ++l) {
    for (const auto& [module, logical] :
         {std::pair{"self_attn.q_proj", "mixer.query"}, {"mlp.down_proj", "channel.down"}}) {
      const Tensor weight = model.read(fmt::format("layers.{}.{}.weight", l, logical)).to(at::kFloat);
      const std::string name = fmt::format("{}{}.{}", kTarget, l, module);
      folder.tensors[name + ".lora_A.weight"] = random({2, weight.size(1)});
      folder.tensors[name + ".lora_B.weight"] = random({weight.size(0), 2});
      if (dora) folder.tensors[name + ".lora_magnitude_vector"] = random({weight.size(0)}).add(1).abs();
    }
  }
  return folder;
}

class AdapterFolders : public PublishedTest {
 protected:
  AdapterFolders() : model_(PublishedModel::open(storage::local_file_system(), kGolden / "llama" / "model")) {
    import_model(kGolden / "llama" / "model", base());
  }
  fs::path base() const { return folder_.path() / "base"; }
  fs::path place(const char* name) const { return folder_.path() / name; }
  std::string import_refused(const PeftFolder& peft) {
    fs::remove_all(place("bad"));
    peft.write(place("bad"));
    const std::string text = refused([&] { import_adapter(base(), place("bad"), place("out")); });
    EXPECT_FALSE(fs::exists(place("out")));
    return text;
  }
  // The merged weights by hand.
  Tensor expected(const PeftFolder& peft, const std::string& module, const std::string& logical,
                  bool dora) const {
    const Tensor weight = model_.read(logical).to(at::kDouble);
    const auto of = [&](const char* ending) {
      return peft.tensors.at(kTarget + module + ending).to(at::kDouble);
    };
    const Tensor sum = weight + at::mm(of(".lora_B.weight"), of(".lora_A.weight")) * 3;
    return dora ? sum * (of(".lora_magnitude_vector") / sum.mul(sum).sum(1).sqrt()).unsqueeze(1) : sum;
  }
  PublishedModel model_;
};

TEST_F(AdapterFolders, AreImportedMergedAndExported) {
  for (const bool dora : {false, true}) {
    const PeftFolder peft = peft_of(model_, dora);
    for (const char* name : {"peft", "adapted", "merged", "back", "public"}) fs::remove_all(place(name));
    peft.write(place("peft"));
    const AdapterReport report = import_adapter(base(), place("peft"), place("adapted"));
    EXPECT_EQ(report.lora.rank, 2);
    EXPECT_EQ(report.lora.alpha, 6);
    EXPECT_EQ(report.lora.targets, (std::vector<std::string>{"down", "query"}));
    EXPECT_EQ(report.adapters, 2 * model_.config().layers);

    merge_adapters(place("adapted"), place("merged"), std::nullopt);
    const auto merged = storage::open_checkpoint(storage::local_file_system(), place("merged"));
    EXPECT_EQ(merged.find(layout::adapter_up_name("layers.0.mixer.query.weight")), nullptr);
    for (const auto& [module, logical] : {std::pair{"0.self_attn.q_proj", "layers.0.mixer.query.weight"},
                                          {"1.mlp.down_proj", "layers.1.channel.down.weight"}}) {
      const std::vector<std::byte> bytes = merged.read_tensor(logical);
      const Tensor wanted = expected(peft, module, logical, dora);
      const Tensor found =
          at::from_blob(const_cast<std::byte*>(bytes.data()), wanted.sizes(), at::kFloat).to(at::kDouble);
      EXPECT_LT((found - wanted).abs().max().item<double>(), 1e-5 * wanted.abs().max().item<double>())
          << logical;
    }
    const Tensor ids = read_tensor(kGolden / "llama" / "expected.safetensors", "ids");
    const Tensor of_adapted = logits_of(*open_model(place("adapted"), "fp32").decoder, ids);
    const Tensor of_merged = logits_of(*open_model(place("merged"), "fp32").decoder, ids);
    EXPECT_LT((of_adapted - of_merged).abs().max().item<double>(), 1e-4);
    EXPECT_GT((of_merged - logits_of(*open_model(base(), "fp32").decoder, ids)).abs().max().item<double>(),
              1e-2);

    export_adapter(place("adapted"), place("back"));
    const auto written = storage::SafetensorsFile::open(storage::local_file_system(),
                                                        place("back") / "adapter_model.safetensors");
    EXPECT_EQ(written.tensors().size(), peft.tensors.size());
    for (const auto& [name, tensor] : peft.tensors) {
      const Tensor back = read_tensor(place("back") / "adapter_model.safetensors", name);
      EXPECT_LT((back - tensor).abs().max().item<double>(), 1e-5) << name;
      if (!name.ends_with("magnitude_vector")) {
        EXPECT_TRUE(back.equal(tensor)) << name;
      }
    }
    const nlohmann::json config = nlohmann::json::parse(read_text(place("back") / "adapter_config.json"));
    EXPECT_EQ(config["target_modules"], (nlohmann::json{"down_proj", "q_proj"}));
    EXPECT_EQ(config["r"], 2);
    EXPECT_EQ(config["lora_alpha"], 6);
    EXPECT_EQ(config["use_dora"], dora);
    EXPECT_EQ(export_model(place("merged"), place("public"), std::nullopt).family, "llama");
  }
}

TEST_F(AdapterFolders, OfSomeLayersNameTheirTensors) {
  PeftFolder peft = peft_of(model_);
  std::erase_if(peft.tensors,
                [](const auto& each) { return each.first.find("layers.0.self_attn") != std::string::npos; });
  peft.write(place("peft"));
  const AdapterReport report = import_adapter(base(), place("peft"), place("adapted"));
  EXPECT_EQ(report.lora.targets[0], "down");
  EXPECT_EQ(report.lora.targets[1], "layers.1.mixer.query.weight");
  EXPECT_EQ(export_adapter(place("adapted"), place("back")).modules[1].find("model.layers.1."), 0u);
}

TEST_F(AdapterFolders, RefusesWhatIsNotComputedHere) {
  for (const auto& [field, value] : std::map<std::string, nlohmann::json>{{"peft_type", "IA3"},
                                                                          {"bias", "all"},
                                                                          {"rank_pattern", {{"q_proj", 4}}},
                                                                          {"modules_to_save", {"lm_head"}},
                                                                          {"r", 0},
                                                                          {"lora_alpha", "much"},
                                                                          {"fan_in_fan_out", true}}) {
    PeftFolder peft = peft_of(model_);
    peft.config[field] = value;
    EXPECT_THAT(import_refused(peft), HasSubstr(field == "peft_type" ? "IA3" : field)) << field;
  }
  PeftFolder both = peft_of(model_, true);
  both.config["use_rslora"] = true;
  EXPECT_THAT(import_refused(both), HasSubstr("two kinds"));
}

TEST_F(AdapterFolders, RefusesTensorsThatDoNotFit) {
  const std::string query = std::string(kTarget) + "0.self_attn.q_proj", up = query + ".lora_B.weight";
  PeftFolder peft = peft_of(model_);
  peft.tensors[up] = at::zeros({5, 2});
  EXPECT_THAT(import_refused(peft), HasSubstr("q_proj.lora_B.weight [5, 2]"));
  peft = peft_of(model_);
  peft.tensors.erase(up);
  EXPECT_THAT(import_refused(peft), HasSubstr("not complete"));
  peft = peft_of(model_);
  peft.tensors["base_model.model.model.layers.0.self_attn.q_prej.lora_A.weight"] = at::zeros({2, 4});
  EXPECT_THAT(import_refused(peft), HasSubstr("q_prej"));
  peft = peft_of(model_);
  peft.tensors["base_model.model.model.embed_tokens.lora_embedding_A"] = at::zeros({2, 4});
  EXPECT_THAT(import_refused(peft), HasSubstr("lora_embedding_A"));
  peft = peft_of(model_);
  peft.tensors["base_model.model.lm_head.lora_A.weight"] = at::zeros({2, 4});
  EXPECT_THAT(import_refused(peft), HasSubstr("head.weight"));
  peft = peft_of(model_);
  peft.config["use_dora"] = true;
  EXPECT_THAT(import_refused(peft), HasSubstr("lora_magnitude_vector"));
  peft.tensors.clear();
  EXPECT_THAT(import_refused(peft), HasSubstr("no tensors"));
}

TEST_F(AdapterFolders, AreServedBesideTheirBase) {
  peft_of(model_).write(place("peft"));
  import_adapter(base(), place("peft"), place("adapted"));
  const OpenModel served = open_model(base(), "fp32"), adapted = open_model(place("adapted"), "fp32");
  const Tensor ids = read_tensor(kGolden / "llama" / "expected.safetensors", "ids");
  const Tensor of_base = logits_of(*served.decoder, ids);
  const int64_t number = add_served_adapter(*served.decoder, place("adapted"));
  EXPECT_EQ(number, 1);
  model::ServedAdapters& all = *served.decoder->parameters().served();
  EXPECT_TRUE(logits_of(*served.decoder, ids).equal(of_base)) << "nobody has chosen it";
  all.choose(std::vector<int64_t>(static_cast<size_t>(ids.numel()), number));
  EXPECT_TRUE(logits_of(*served.decoder, ids).equal(logits_of(*adapted.decoder, ids)));
}

TEST_F(AdapterFolders, AreServedBesideNothingElse) {
  peft_of(model_).write(place("peft"));
  import_adapter(base(), place("peft"), place("adapted"));
  const auto told = [&](const fs::path& of, const fs::path& run) {
    const OpenModel opened = open_model(of, "fp32");
    const std::string text = refused([&] { add_served_adapter(*opened.decoder, run); });
    EXPECT_EQ(opened.decoder->parameters().served()->count(), 0);
    return text;
  };
  merge_adapters(place("adapted"), place("merged"), std::nullopt);
  EXPECT_THAT(told(place("merged"), place("adapted")), HasSubstr("beside other weights"));
  EXPECT_THAT(told(place("adapted"), place("adapted")), HasSubstr("one of another model"));
  EXPECT_THAT(told(base(), base()), HasSubstr("no adapters"));
  peft_of(model_, true).write(place("dora"));
  import_adapter(base(), place("dora"), place("adapted_dora"));
  EXPECT_THAT(told(base(), place("adapted_dora")), HasSubstr("not served beside others"));
}

TEST_F(AdapterFolders, OtherReadersSayWhatToDo) {
  peft_of(model_).write(place("peft"));
  import_adapter(base(), place("peft"), place("adapted"));
  EXPECT_THAT(refused([&] { export_model(place("adapted"), place("public"), std::nullopt); }),
              HasSubstr("checkpoint merge"));
  EXPECT_THAT(refused([&] { import_adapter(place("adapted"), place("peft"), place("twice")); }),
              HasSubstr("checkpoint merge"));
  EXPECT_THAT(refused([&] { merge_adapters(base(), place("merged"), std::nullopt); }),
              HasSubstr("no adapters"));
}

}  // namespace
}  // namespace longhaul::checkpoint
