// Routes of written texts against those of one pass over them, their file, and what is said about files that
// do not fit.
#include "generate/routes_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "generate/generate.h"
#include "storage/safetensors.h"
#include "support/models.h"

namespace longhaul::generate {
namespace {

using namespace longhaul::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

model::Routes routes_of_one_pass(model::Decoder& decoder, const std::vector<int64_t>& ids) {
  const at::NoGradGuard guard;
  model::LocalOps ops;
  model::Context context(ops, decoder.precision());
  context.training = false;
  context.recorded_routes = std::make_shared<model::Routes>();
  decoder.hidden(context, id_tensor(ids), layout::make_single(std::ssize(ids)));
  return *context.recorded_routes;
}

recipe::ModelConfig config_of_test() {
  recipe::ModelConfig config = hybrid_experts_post_norm();
  config.dense_layers = {1};
  return config;
}

// Prompt and new tokens, but for the last one where that was drawn last and never read.
TEST(RoutesOfTexts, AreThoseOfOnePassOverThem) {
  model::Decoder decoder = filled_decoder(config_of_test());
  const std::vector<std::vector<int64_t>> prompts = {{2, 5, 6, 7}, {2}, {2, 9, 1, 1, 4, 20, 3, 8}};
  constexpr int64_t kCount = 3;
  const GenerateSettings settings{
      .tokens = 12, .temperature = 3, .seed = 4, .count = kCount, .records_routes = true, .stop_ids = {2}};
  const std::vector<Generation> generations = generate_batch(decoder, prompts, settings);
  int64_t stopped = 0;
  for (size_t i = 0; i < generations.size(); ++i) {
    const Generation& generation = generations[i];
    std::vector<int64_t> read = prompts[i / kCount];
    read.insert(read.end(), generation.ids.begin(), generation.ids.end());
    const bool stops = generation.finish == Finish::kStop;
    if (!stops) read.pop_back();
    stopped += stops ? 1 : 0;
    EXPECT_EQ(generation.routed.ids, read) << i;
    const model::Routes expected = routes_of_one_pass(decoder, read);
    ASSERT_EQ(generation.routed.routes.size(), 2u);
    for (const auto& [block, choice_tk] : expected)
      EXPECT_TRUE(generation.routed.routes.at(block).equal(choice_tk)) << i << " " << block;
  }
  EXPECT_GT(stopped, 0);
  EXPECT_LT(stopped, std::ssize(generations));
  // Asked for or not, the same tokens.
  GenerateSettings plain = settings;
  plain.records_routes = false;
  const std::vector<Generation> same = generate_batch(decoder, prompts, plain);
  for (size_t i = 0; i < same.size(); ++i) {
    EXPECT_EQ(same[i].ids, generations[i].ids);
    EXPECT_TRUE(same[i].routed.ids.empty());
  }
  EXPECT_THROW(Generator(decoder, 1 << 24).run(prompts, settings), Error)
      << "beginnings that are not read again went nobody knows where";
}

class RoutesFile : public ::testing::Test {
 protected:
  RoutesFile()
      : path_(fs::temp_directory_path() /
              ("longhaul-routes-" + std::to_string(::getpid()) + ".safetensors")) {}
  ~RoutesFile() override { fs::remove(path_); }

  // Of two sequences, 4 and 2 tokens.
  std::vector<RoutedSequence> written() {
    std::vector<RoutedSequence> sequences;
    int64_t first = 0;
    for (const std::vector<int64_t>& ids : {std::vector<int64_t>{1, 2, 3, 28}, std::vector<int64_t>{7, 0}}) {
      RoutedSequence sequence{ids, {}};
      for (const std::string& block : model::blocks_with_routers(config_)) {
        const Tensor choice = at::arange(std::ssize(ids)).add(first++).remainder(4);
        sequence.routes[block] = at::stack({choice, choice.add(3).remainder(4)}, 1);
      }
      sequences.push_back(sequence);
    }
    write_routes(path_, sequences, config_, {{"checkpoint", "runs/a"}, {"step", "8"}});
    return sequences;
  }

  // What is said about the file once its parts were changed.
  struct Parts {
    std::map<std::string, Tensor> tensors;
    std::map<std::string, std::string> metadata;
  };
  std::string refused(const std::function<void(Parts&)>& change) {
    Parts parts;
    for (const RoutedSequence& sequence : written()) {
      for (const auto& [block, choice_tk] : sequence.routes) {
        Tensor& all = parts.tensors[block];
        all = all.defined() ? at::cat({all, choice_tk}) : choice_tk;
      }
    }
    parts.tensors["ids"] = id_tensor({1, 2, 3, 28, 7, 0});
    parts.tensors["offsets"] = id_tensor({0, 4, 6});
    parts.metadata = storage::SafetensorsFile::open(storage::LocalFileSystem(), path_).metadata();
    change(parts);
    std::vector<storage::TensorData> data;
    for (auto& [name, tensor] : parts.tensors) {
      tensor = tensor.contiguous();
      const auto type = tensor.scalar_type() == at::kFloat ? storage::DType::kF32 : storage::DType::kI64;
      data.push_back(
          {name,
           type,
           tensor.sizes().vec(),
           {static_cast<const std::byte*>(tensor.const_data_ptr()), static_cast<size_t>(tensor.nbytes())}});
    }
    storage::LocalFileSystem files;
    storage::write_safetensors(files, path_, data, parts.metadata);
    return refused();
  }
  std::string refused() const {
    try {
      read_routes(path_, config_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_THAT(error.what(), HasSubstr(path_.string()));
      return error.what();
    }
    return "";
  }

  fs::path path_;
  recipe::ModelConfig config_ = config_of_test();
};

TEST_F(RoutesFile, GivesBackWhatWasWritten) {
  const std::vector<RoutedSequence> expected = written(), found = read_routes(path_, config_);
  ASSERT_EQ(found.size(), 2u);
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(found[s].ids, expected[s].ids);
    ASSERT_EQ(found[s].routes.size(), 2u);
    for (const auto& [block, choice_tk] : expected[s].routes)
      EXPECT_TRUE(found[s].routes.at(block).equal(choice_tk)) << block;
  }
  const auto file = storage::SafetensorsFile::open(storage::LocalFileSystem(), path_);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"longhaul.routes", "1"},
                                                                 {"experts", "4"},
                                                                 {"experts_per_token", "2"},
                                                                 {"checkpoint", "runs/a"},
                                                                 {"step", "8"}}));
  EXPECT_EQ(file.at("layers.2.experts").dtype, storage::DType::kI16);
  EXPECT_EQ(file.at("layers.2.experts").shape, (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(refused([](Parts&) {}), "") << "wider numbers are as good";
}

TEST_F(RoutesFile, OfAnotherModelIsRefused) {
  const auto changed = [&](const char* key, const char* value) {
    return refused([&](Parts& parts) { parts.metadata[key] = value; });
  };
  EXPECT_THAT(changed("experts", "8"),
              AllOf(HasSubstr("of another model"), HasSubstr("experts = 4"), HasSubstr("8")));
  EXPECT_THAT(changed("experts_per_token", "1"),
              AllOf(HasSubstr("of another model"), HasSubstr("experts_per_token = 2")));
  EXPECT_THAT(changed("longhaul.routes", "2"),
              AllOf(HasSubstr("holds no routes"), HasSubstr("longhaul.routes = 1")));
  EXPECT_THAT(refused([](Parts& parts) { parts.metadata.clear(); }),
              AllOf(HasSubstr("holds no routes"), HasSubstr("nothing")));
  EXPECT_THAT(refused([](Parts& parts) { parts.tensors.erase("layers.2.experts"); }),
              AllOf(HasSubstr("of another model"), HasSubstr("layers.0.experts, layers.2.experts")));
  EXPECT_THAT(
      refused([](Parts& parts) { parts.tensors["layers.3.experts"] = parts.tensors["layers.2.experts"]; }),
      AllOf(HasSubstr("of another model"), HasSubstr("layers.3.experts")));
}

TEST_F(RoutesFile, ListsThatDoNotFitAreRefused) {
  const auto with = [&](const char* name, const Tensor& tensor) {
    return refused([&](Parts& parts) { parts.tensors[name] = tensor; });
  };
  EXPECT_THAT(with("ids", id_tensor({1, 2, 3})), HasSubstr("from 0 up to 3 ids"));
  EXPECT_THAT(with("offsets", id_tensor({0, 5})), HasSubstr("from 0 up to 6 ids"));
  EXPECT_THAT(with("offsets", id_tensor({1, 6})), HasSubstr("from 0 up to 6 ids"));
  EXPECT_THAT(with("offsets", id_tensor({0, 4, 2, 6})), HasSubstr("from 0 up to 6 ids"));
  EXPECT_THAT(with("offsets", id_tensor({6})), HasSubstr("from 0 up to 6 ids"));
  EXPECT_THAT(with("offsets", at::zeros({1, 2}, at::kLong)), HasSubstr("1 axes"));
  EXPECT_THAT(with("ids", at::zeros({6})), AllOf(HasSubstr("no whole numbers"), HasSubstr("F32")));
  EXPECT_THAT(refused([](Parts& parts) { parts.tensors.erase("ids"); }),
              AllOf(HasSubstr("a tensor is missing"), HasSubstr("ids")));
  EXPECT_THAT(with("layers.0.experts", at::zeros({6, 3}, at::kLong)),
              AllOf(HasSubstr("does not fit"), HasSubstr("[6, 2]"), HasSubstr("[6, 3]")));
  EXPECT_THAT(with("layers.0.experts", at::zeros({5, 2}, at::kLong)),
              AllOf(HasSubstr("does not fit"), HasSubstr("[5, 2]")));
  const auto expert = [&](int64_t e) {
    return refused([&](Parts& parts) { parts.tensors["layers.2.experts"][5][1] = e; });
  };
  EXPECT_THAT(expert(4),
              AllOf(HasSubstr("layers.2.experts names an expert that there is not"), HasSubstr("0 to 3")));
  EXPECT_THAT(expert(-1), AllOf(HasSubstr("names an expert that there is not"), HasSubstr("-1")));
  EXPECT_THAT(with("layers.2.experts", at::ones({6, 2}, at::kLong)),
              HasSubstr("sends a token to an expert twice"));
}

TEST_F(RoutesFile, OtherFilesAreRefused) {
  fs::remove(path_);
  EXPECT_THAT(refused(), HasSubstr("No such file"));
  std::ofstream(path_) << "[1, 2, 3]";
  EXPECT_NE(refused(), "");
  std::ofstream(path_) << std::string(4096, 'x');
  EXPECT_NE(refused(), "");
}

TEST(RoutesOfModels, WithoutExpertsThereAreNone) {
  EXPECT_NO_THROW(require_routers(config_of_test(), "--routes"));
  try {
    require_routers(small_config(), "--routes");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("has no experts"), HasSubstr("--routes")));
  }
}

}  // namespace
}  // namespace longhaul::generate
