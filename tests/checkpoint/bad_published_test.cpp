// Folders of published models that cannot be, or that lie: each is refused with what is wrong, and nothing is
// left behind.
#include <cstring>

#include "data/tokenizer/tokenizer.h"
#include "published_for_tests.h"
#include "storage/published_folder.h"

namespace longhaul::checkpoint {
namespace {

using BadPublished = PublishedTest;

TEST_F(BadPublished, SizesThatDoNotFitAreRefusedByName) {
  EXPECT_THAT(with("llama", {{"num_key_value_heads", 3}}), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(with("mixtral", {{"hidden_size", 13}, {"head_dim", nullptr}}), HasSubstr("hidden_size"));
  EXPECT_THAT(with("gpt2", {{"n_head", 5}}), HasSubstr("n_head"));
  EXPECT_THAT(with("llama", {{"hidden_size", -4}}), HasSubstr("hidden_size"));
  EXPECT_THAT(with("llama", {{"hidden_size", "12"}}), HasSubstr("a whole number"));
  EXPECT_THAT(with("llama", {{"num_hidden_layers", 1e9}}), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(with("llama", {{"num_hidden_layers", 1000000000}}), HasSubstr("at most 10000"));
  EXPECT_THAT(with("qwen2", {{"num_hidden_layers", 1000000000000}}), HasSubstr("at most"));
  EXPECT_THAT(with("mixtral", {{"num_local_experts", 100000000}}), HasSubstr("num_local_experts"));
  EXPECT_THAT(with("gpt2", {{"n_layer", 1000000000}}), HasSubstr("model.layers"));
  EXPECT_THAT(with("gpt2", {{"n_embd", 1000000}, {"n_head", 1000}}), HasSubstr("model.hidden"));
  EXPECT_THAT(with("minimax-original", {{"rotary_dim", 10}}), HasSubstr("rotary_dim"));
  EXPECT_THAT(with("minimax-original", {{"rotary_dim", 7}}), HasSubstr("rotary_dim"));
  EXPECT_THAT(with("minimax-original", {{"attn_type_list", {0, 1}}}),
              HasSubstr("one entry for each of the 4 layers"));
  EXPECT_THAT(with("minimax", {{"layer_types", {"linear_attention"}}}), HasSubstr("layer_types"));
  EXPECT_THAT(with("qwen2", {{"layer_types", {"full_attention"}}}), HasSubstr("layer_types"));
  EXPECT_THAT(with("mixtral", {{"num_experts_per_tok", 9}}), HasSubstr("num_experts_per_tok"));
  EXPECT_THAT(with("llama", {{"intermediate_size", 14}}), HasSubstr("another shape"));
  EXPECT_THAT(with("llama", {{"vocab_size", 24}}), HasSubstr("vocab_size"));
}

TEST_F(BadPublished, WhatChangesTheMathematicsAndIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(with("llama", {{"mlp_bias", true}}), HasSubstr("mlp_bias"));
  EXPECT_THAT(with("llama", {{"hidden_act", "gelu"}}), HasSubstr("hidden_act"));
  EXPECT_THAT(with("llama", {{"attn_logit_softcapping", 50.0}}), HasSubstr("attn_logit_softcapping"));
  EXPECT_THAT(with("llama", {{"norm_topk_prob", false}}), HasSubstr("norm_topk_prob"));
  EXPECT_THAT(
      with("llama", {{"rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}, {"factor", 4.0}}}}),
      HasSubstr("yarn"));
  EXPECT_THAT(with("llama", {{"partial_rotary_factor", 0.5}}), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(with("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}),
              HasSubstr("scale_attn_by_inverse_layer_idx"));
  EXPECT_THAT(with("gpt2", {{"activation_function", "relu"}}), HasSubstr("activation_function"));
  EXPECT_THAT(with("minimax-original", {{"shared_intermediate_size", 16}}),
              HasSubstr("shared_intermediate_size"));
  EXPECT_THAT(with("minimax", {{"rotary_dim", 4}}), HasSubstr("rotary_dim"));
}

TEST_F(BadPublished, WhatLinearFamiliesCanDoBesideIsRefusedByName) {
  const std::pair<const char*, nlohmann::json> fields[] = {
      {"mamba2", {{"use_bias", true}}},
      {"mamba2", {{"use_conv_bias", false}}},
      {"mamba2", {{"time_step_limit", {0.0, 0.5}}}},
      {"mamba2", {{"time_step_limit", {0.1, nullptr}}}},
      {"mamba2", {{"expand", 3}}},
      {"mamba2", {{"n_groups", 4}}},
      {"flash-linear-deltanet", {{"use_beta", false}}},
      {"flash-linear-deltanet", {{"qk_norm", "sum"}}},
      {"flash-linear-deltanet", {{"qk_activation", "elu"}}},
      {"flash-linear-deltanet", {{"use_short_conv", false}}},
      {"flash-linear-deltanet", {{"expand_k", 0.3}}},
      {"flash-linear-gla", {{"use_short_conv", true}}},
      {"flash-linear-gla", {{"num_kv_heads", 1}}},
      {"flash-linear-gla", {{"clamp_min", -1.0}}},
      {"flash-linear-gla", {{"expand_k", 0.4}}},
      {"flash-linear-retnet", {{"feature_map", "relu"}}},
      {"flash-linear-retnet", {{"attn", {{"layers", {1}}}}}},
      {"flash-linear-retnet", {{"attnres_block_size", 4}}},
      {"flash-linear-hgrn2", {{"use_lower_bound", false}}},
      {"flash-linear-hgrn2", {{"expand_ratio", 5}}},
      {"flash-linear-hgrn2", {{"elementwise_affine", false}}},
      {"flash-linear-gated-deltanet", {{"use_gate", false}}},
      {"flash-linear-gated-deltanet", {{"num_v_heads", 3}}},
      {"flash-linear-gated-deltanet", {{"gate_norm", "l2"}}},
  };
  for (const auto& [model, change] : fields) {
    const std::string field = change.begin().key();
    EXPECT_THAT(with(model, change), HasSubstr(field == "expand" ? "num_heads" : field))
        << model << " " << change;
  }
  EXPECT_THAT(with("flash-linear-gla", {{"model_type", "gated_delta_product"}}),
              HasSubstr("found     gated_delta_product"));
}

TEST_F(BadPublished, UnknownArchitecturesNameTheNearest) {
  EXPECT_THAT(with("llama", {{"model_type", "lama"}}), HasSubstr("nearest is llama"));
  EXPECT_THAT(with("llama", {{"model_type", "falcon_h1"}}), HasSubstr("falcon_h1"));
  const fs::path model = copy_of("llama");
  std::ofstream(model / "config.json") << "{\"model_type\": \"llama\", ";
  EXPECT_THAT(import_refused(model), HasSubstr("config.json"));
  std::ofstream(model / "config.json") << "[1, 2]";
  EXPECT_THAT(import_refused(model), HasSubstr("model_type"));
}

TEST_F(BadPublished, TensorsThatAreMissingUnexpectedOrOfAnotherDtypeAreRefused) {
  const fs::path model = copy_of("llama"), file = model / "model.safetensors";
  const std::vector<Named> all = tensors_in(file);
  std::vector<Named> changed = all;
  std::erase_if(changed,
                [](const Named& tensor) { return tensor.name == "model.layers.1.mlp.up_proj.weight"; });
  write_tensors(file, changed);
  EXPECT_THAT(import_refused(model), HasSubstr("model.layers.1.mlp.up_proj.weight"));

  changed = all;
  std::erase_if(changed, [](const Named& tensor) { return tensor.name == "lm_head.weight"; });
  write_tensors(file, changed);
  EXPECT_THAT(import_refused(model), HasSubstr("tie_word_embeddings"));

  changed = all;
  changed.push_back(changed.front());
  changed.back().name = "model.layers.0.self_attn.q_proj.lora_A";
  write_tensors(file, changed);
  EXPECT_THAT(import_refused(model), HasSubstr("model.layers.0.self_attn.q_proj.weight"));  // the nearest

  changed = all;
  for (Named& tensor : changed) {
    if (tensor.name != "model.layers.1.self_attn.v_proj.weight") continue;
    tensor.dtype = storage::DType::kBF16;
    tensor.data.resize(tensor.data.size() / 2);
  }
  write_tensors(file, changed);
  EXPECT_THAT(import_refused(model), HasSubstr("several dtypes"));
  for (Named& tensor : changed)
    tensor.dtype = tensor.dtype == storage::DType::kF32 ? storage::DType::kI32 : storage::DType::kI16;
  write_tensors(file, changed);
  EXPECT_THAT(import_refused(model), HasSubstr("dtype"));

  fs::resize_file(file, fs::file_size(file) - 8);
  EXPECT_THAT(import_refused(model), HasSubstr("model.safetensors"));
}

TEST_F(BadPublished, ATiedHeadMayStandThereTwiceButNotDiffer) {
  const fs::path model = copy_of("llama-tied"), file = model / "model.safetensors";
  std::vector<Named> tensors = tensors_in(file);
  for (const Named& tensor : tensors) {
    if (tensor.name != "model.embed_tokens.weight") continue;
    tensors.push_back(tensor);
    break;
  }
  tensors.back().name = "lm_head.weight";
  write_tensors(file, tensors);
  EXPECT_THAT(import_model(model, folder_.path() / "twice").ignored_tensors,
              ::testing::ElementsAre("lm_head.weight"));
  tensors.back().data[0] ^= std::byte{1};
  write_tensors(file, tensors);
  EXPECT_THAT(import_refused(model), HasSubstr("the head is not the embedding"));
}

class BadPublishedIndex : public PublishedTest {
 protected:
  void SetUp() override {
    model_ = copy_of("llama");
    const std::vector<Named> all = tensors_in(model_ / "model.safetensors");
    fs::remove(model_ / "model.safetensors");
    for (size_t file = 0; file < 2; ++file) {
      std::vector<Named> part;
      for (size_t i = 0; i < all.size(); ++i) {
        if (i % 2 != file) continue;
        part.push_back(all[i]);
        map_[all[i].name] = names_[file];
      }
      write_tensors(model_ / names_[file], part);
    }
  }
  std::string refused_with(const nlohmann::json& map) {
    std::ofstream(model_ / storage::kPublishedIndex)
        << nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
    return import_refused(model_);
  }
  const std::vector<std::string> names_ = {"model-00001-of-00002.safetensors",
                                           "model-00002-of-00002.safetensors"};
  fs::path model_;
  nlohmann::json map_ = nlohmann::json::object();
};

TEST_F(BadPublishedIndex, TellsWhereTensorsLie) {
  std::ofstream(model_ / storage::kPublishedIndex) << nlohmann::json{{"weight_map", map_}};
  EXPECT_EQ(import_model(model_, folder_.path() / "sharded").mapped, map_.size());
}

TEST_F(BadPublishedIndex, IsNotTrusted) {
  for (const char* path :
       {"../model.safetensors", "/etc/passwd.safetensors", "a/b.safetensors", "..", "", "model.bin"}) {
    nlohmann::json map = map_;
    map["lm_head.weight"] = path;
    EXPECT_THAT(refused_with(map), HasSubstr("may not name")) << path;
  }
  nlohmann::json cut = map_;
  cut.erase("lm_head.weight");
  EXPECT_THAT(refused_with(cut), HasSubstr("the index lacks a tensor"));
  nlohmann::json shuffled = map_;
  shuffled["lm_head.weight"] = map_["lm_head.weight"] == names_[0] ? names_[1] : names_[0];
  EXPECT_THAT(refused_with(shuffled), HasSubstr("not in the file that the index names"));
  nlohmann::json more = map_;
  more["model.layers.7.mlp.up_proj.weight"] = names_[0];
  EXPECT_THAT(refused_with(more), HasSubstr("model.layers.7.mlp.up_proj.weight"));
  nlohmann::json gone = map_;
  gone["lm_head.weight"] = "model-00003-of-00002.safetensors";
  EXPECT_THAT(refused_with(gone), HasSubstr("missing"));
  EXPECT_THAT(refused_with(nlohmann::json::array()), HasSubstr("weight_map"));
  std::ofstream(model_ / storage::kPublishedIndex) << "{\"weight_map\": {\"a\": ";
  EXPECT_THAT(import_refused(model_), HasSubstr("index"));
}

TEST_F(BadPublishedIndex, ATensorInTwoFilesIsRefused) {
  std::vector<Named> second = tensors_in(model_ / names_[1]);
  second.push_back(tensors_in(model_ / names_[0]).front());
  write_tensors(model_ / names_[1], second);
  EXPECT_THAT(refused_with(map_), HasSubstr("in two files"));
}

// The golden models have 23 rows; bytes are 257 entries.
TEST_F(BadPublished, ATokenizerWithMoreEntriesThanTheModelHasRowsIsRefused) {
  const fs::path model = copy_of("llama");
  data::Tokenizer::bytes().save(model / "tokenizer.json");
  EXPECT_THAT(import_refused(model),
              ::testing::AllOf(HasSubstr("the tokenizer has more entries than the model has rows"),
                               HasSubstr("at most 23"), HasSubstr("257"), HasSubstr("tokenizer.json")));
}

// Found by the last thing that an import does, when all weights are written.
TEST_F(BadPublished, WeightsThatDoNotComputeAreRefused) {
  const fs::path model = copy_of("llama"), file = model / "model.safetensors";
  const std::vector<Named> all = tensors_in(file);
  for (const float value : {NAN, INFINITY}) {
    for (const char* name : {"model.layers.0.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"}) {
      std::vector<Named> changed = all;
      for (Named& tensor : changed) {
        if (tensor.name != name) continue;
        for (size_t i = 0; i < tensor.data.size(); i += sizeof value)
          std::memcpy(&tensor.data[i], &value, sizeof value);
      }
      write_tensors(file, changed);
      EXPECT_THAT(import_refused(model), HasSubstr("its logits are not finite")) << name << " " << value;
    }
  }
}

TEST_F(BadPublished, PickleFilesAreRefused) {
  const fs::path model = copy_of("llama");
  fs::rename(model / "model.safetensors", model / "pytorch_model.bin");
  EXPECT_THAT(import_refused(model), HasSubstr("pickle"));
  fs::remove(model / "pytorch_model.bin");
  EXPECT_THAT(import_refused(model), HasSubstr("no weights"));
  EXPECT_THAT(import_refused(folder_.path() / "nowhere"), HasSubstr("config.json"));
}

}  // namespace
}  // namespace longhaul::checkpoint
