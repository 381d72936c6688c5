// What ends a text of a published model, and what an export says of a model that was trained here. Made from
// public reports of models that never stopped.
#include "checkpoint/published/published_tokens.h"

#include "checkpoint/open_model.h"
#include "checkpoint/published/export.h"
#include "checkpoint/starting_point.h"
#include "data/template_tokenizer.h"
#include "published_for_tests.h"

namespace longhaul::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Few enough ids for the golden models: as SentencePiece has them, with <s> in front.
std::string small_tokenizer() {
  return R"({"version":"1.0","truncation":null,"padding":null,
    "added_tokens":[{"id":0,"content":"<over>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
                    {"id":1,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
                    {"id":2,"content":"<|im_end|>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
    "normalizer":null,"pre_tokenizer":null,
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
                      "pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}},
    "decoder":null,
    "model":{"type":"BPE","dropout":null,"unk_token":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
             "vocab":{"<over>":0,"<s>":1,"<|im_end|>":2,"a":3,"b":4},"merges":[]}})";
}

class PublishedTokens : public PublishedTest {
 protected:
  data::TokenRoles roles(const std::map<std::string, std::string>& files, const std::string& end = "<over>") {
    const fs::path folder = folder_.path() / "beside";
    fs::remove_all(folder);
    fs::create_directories(folder);
    for (const auto& [name, text] : files) std::ofstream(folder / name) << text;
    return published_roles(folder, data::bytes_with(end, {"<|im_end|>", "<|eot|>"}));
  }
};

TEST_F(PublishedTokens, EndsAreTakenFromTheFirstFileThatSaysThem) {
  const std::string config = R"({"eos_token_id": 256})", generation = R"({"eos_token_id": [257, 256, 258]})";
  EXPECT_THAT(roles({{"config.json", config}, {"generation_config.json", generation}}, "</s>").stop,
              ElementsAre("<|im_end|>", "<|eot|>"));
  EXPECT_EQ(roles({{"config.json", config}, {"generation_config.json", generation}}, "</s>").end_of_document,
            "")
      << "it has a usual name";
  EXPECT_THAT(roles({{"config.json", R"({"eos_token_id": 257})"},
                     {"generation_config.json", R"({"eos_token_id": null})"}},
                    "</s>")
                  .stop,
              ElementsAre("<|im_end|>"));
  const auto by_name =
      roles({{"config.json", "{}"}, {"tokenizer_config.json", R"({"eos_token": {"content": "<over>"}})"}});
  EXPECT_EQ(by_name.end_of_document, "<over>");
  EXPECT_THAT(by_name.stop, IsEmpty()) << "the end of a document ends a text anyway";
  EXPECT_EQ(roles({{"tokenizer_config.json", R"({"eos_token": "<over>"})"}}).end_of_document, "<over>");
  EXPECT_THAT(roles({{"generation_config.json", R"({"eos_token_id": [257, 90000, -1]})"}}, "</s>").stop,
              ElementsAre("<|im_end|>"));
  EXPECT_THAT(roles({}).stop, IsEmpty());
}

TEST_F(PublishedTokens, FilesThatLieAreRefusedByName) {
  EXPECT_THAT(refused([&] {
                roles({{"generation_config.json", "{"}});
              }),
              HasSubstr("generation_config.json"));
  EXPECT_THAT(refused([&] {
                roles({{"config.json", R"({"eos_token_id": "</s>"})"}});
              }),
              AllOf(HasSubstr("config.json"), HasSubstr("eos_token_id")));
  EXPECT_THAT(refused([&] {
                roles({{"config.json", R"({"eos_token_id": [1.5]})"}});
              }),
              HasSubstr("eos_token_id"));
  EXPECT_THAT(refused([&] {
                roles({{"tokenizer_config.json", R"({"eos_token": 3})"}});
              }),
              HasSubstr("eos_token"));
}

TEST_F(PublishedTokens, TheCheckpointKeepsThemAndARunBeginsWithThem) {
  const fs::path model = copy_of("llama");
  std::ofstream(model / "tokenizer.json") << small_tokenizer();
  std::ofstream(model / "generation_config.json") << R"({"eos_token_id": [0, 2]})";
  const fs::path out = folder_.path() / "imported";
  const ImportReport report = import_model(model, out);
  EXPECT_THAT(report.tokenizer, AllOf(HasSubstr("begins with <s>"), HasSubstr("<over> or <|im_end|>")));
  const recipe::DataOptions data = open_model(out).recipe.recipe.data;
  EXPECT_EQ(data.end_of_document, "<over>");
  EXPECT_THAT(data.stop_tokens, ElementsAre("<|im_end|>"));
  for (const fs::path& from : {model, out}) {
    const recipe::FirstWords words = StartingPoint::open(from)->first_words();
    EXPECT_EQ(words.recipe.data.end_of_document, "<over>");
    EXPECT_THAT(words.recipe.data.stop_tokens, ElementsAre("<|im_end|>"));
    EXPECT_THAT(words.keys,
                ::testing::IsSupersetOf({"data.tokenizer", "data.end_of_document", "data.stop_tokens"}));
  }
  // Out again, it is what came in.
  export_model(out, folder_.path() / "out", std::nullopt);
  EXPECT_EQ(read_text(folder_.path() / "out" / "tokenizer.json"), small_tokenizer());
  EXPECT_FALSE(fs::exists(folder_.path() / "out" / "tokenizer_config.json")) << "it had none";
}

// What lies beside the weights of an import, gone: it is then a model like one that was trained here.
TEST_F(PublishedTokens, AnExportSaysWhatTrainingKnew) {
  const fs::path model = copy_of("llama");
  nlohmann::json config = config_of(model);
  config["max_position_embeddings"] = 64;
  write_config(model, config);
  std::string text = small_tokenizer();
  text.replace(text.find(R"({"type":"TemplateProcessing")"),
               text.find(R"("decoder")") - text.find(R"({"type":"TemplateProcessing")"), "null,");
  std::ofstream(model / "tokenizer.json") << text;
  std::ofstream(model / "generation_config.json") << R"({"eos_token_id": [0, 2]})";
  const fs::path out = folder_.path() / "imported", exported = folder_.path() / "exported";
  import_model(model, out);
  fs::remove_all(out / "published");
  const ExportReport report = export_model(out, exported, std::nullopt);
  EXPECT_THAT(report.carried,
              ElementsAre("tokenizer.json", "tokenizer_config.json", "generation_config.json"));
  EXPECT_EQ(report.loaded_by, "transformers");
  for (const char* name : {"config.json", "generation_config.json"}) {
    const auto said = nlohmann::json::parse(read_text(exported / name));
    EXPECT_EQ(said["bos_token_id"], 0) << name;
    EXPECT_EQ(said["eos_token_id"], (nlohmann::json{0, 2})) << name;
  }
  EXPECT_EQ(config_of(exported)["max_position_embeddings"], 64);
  EXPECT_TRUE(config_of(exported)["pad_token_id"].is_null());
  const auto tokens = nlohmann::json::parse(read_text(exported / "tokenizer_config.json"));
  EXPECT_EQ(tokens["bos_token"], "<over>");
  EXPECT_EQ(tokens["eos_token"], "<over>");
  EXPECT_THAT(data::Tokenizer::load(exported / "tokenizer.json").encode("ab", true), ElementsAre(0, 3, 4))
      << "documents began with it";
}

TEST_F(PublishedTokens, ExportWritesTheFamilyThatIsAskedFor) {
  const fs::path out = folder_.path() / "imported";
  import_model(copy_of("llama-tied"), out);
  EXPECT_THAT(refused([&] { export_model(out, folder_.path() / "no", std::nullopt, {}, "qwen3"); }),
              HasSubstr("queries and keys have norms"));
  EXPECT_FALSE(fs::exists(folder_.path() / "no"));
  import_model(copy_of("llama"), folder_.path() / "other");
  const ExportReport report =
      export_model(folder_.path() / "other", folder_.path() / "mistral", std::nullopt, {}, "mistral");
  EXPECT_EQ(report.family, "mistral");
}

using PublishedNames = PublishedTest;

// Names of a wrapped model are shown, not only said to be missing.
TEST_F(PublishedNames, WhatStandsInFrontOfThemIsSeen) {
  for (const std::string prefix : {"_orig_mod.", "module.", "base_model.model."}) {
    const fs::path model = copy_of("llama"), file = model / "model.safetensors";
    std::vector<Named> tensors = tensors_in(file);
    for (Named& tensor : tensors) tensor.name = prefix + tensor.name;
    write_tensors(file, tensors);
    EXPECT_THAT(import_refused(model),
                AllOf(HasSubstr(prefix + "model.embed_tokens.weight"), HasSubstr("wrapped")))
        << prefix;
  }
  const fs::path model = copy_of("llama"), file = model / "model.safetensors";
  std::vector<Named> tensors = tensors_in(file);
  for (Named& tensor : tensors)
    if (tensor.name.starts_with("model.")) tensor.name = tensor.name.substr(6);
  write_tensors(file, tensors);
  EXPECT_THAT(import_refused(model),
              AllOf(HasSubstr("such as embed_tokens.weight"), HasSubstr("part of one")));
}

TEST_F(PublishedNames, TwoSetsOfWeightsAreRefused) {
  const fs::path model = copy_of("llama");
  fs::copy(model / "model.safetensors", model / "model-00001-of-00001.safetensors");
  nlohmann::json map;
  for (const Named& tensor : tensors_in(model / "model.safetensors"))
    map[tensor.name] = "model-00001-of-00001.safetensors";
  std::ofstream(model / "model.safetensors.index.json") << nlohmann::json{{"weight_map", map}};
  EXPECT_THAT(import_refused(model), HasSubstr("two sets of weights"));
  for (auto& [name, file] : map.items()) file = "model.safetensors";
  std::ofstream(model / "model.safetensors.index.json") << nlohmann::json{{"weight_map", map}};
  EXPECT_NO_THROW(import_model(model, folder_.path() / "named")) << "the index names the single file";
}

}  // namespace
}  // namespace longhaul::checkpoint
