// ctest: label=full timeout=600
// What `score` and `evaluate` print, against a forward pass of plain loops over the weights in the checkpoint
// file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/process/process.h"
#include "storage/catalog.h"
#include "storage/safetensors.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using Row = std::vector<double>;
using Rows = std::vector<Row>;

constexpr size_t kLayers = 2, kHeads = 2, kHeadDim = 8, kRows = 300, kSeparator = 256, kContext = 16;
constexpr double kEps = 1e-5;

// The model of the recipe below: softmax attention without positions (two query heads share a key head),
// SwiGLU, RMS norms before each.
class PlainModel {
 public:
  explicit PlainModel(const fs::path& run)
      : checkpoint_(storage::open_checkpoint(storage::local_file_system(), run)) {}

  // Log-probabilities for the token after each.
  Rows logits(const std::vector<size_t>& ids) const {
    const Rows embedding = matrix("embedding.weight");
    Rows h_td;
    for (const size_t id : ids) h_td.push_back(embedding[id]);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      const std::string name = "layers." + std::to_string(layer);
      add(h_td, attention(name + ".mixer", normed(h_td, name + ".mixer_norm")));
      add(h_td, swiglu(name + ".channel", normed(h_td, name + ".channel_norm")));
    }
    return times(normed(h_td, "norm"), "head");
  }

 private:
  Rows matrix(const std::string& name) const {
    const auto& shape = checkpoint_.at(name).shape;
    const auto bytes = checkpoint_.read_tensor(name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    const size_t width = static_cast<size_t>(shape.back());
    Rows rows;
    for (size_t at = 0; at < values.size(); at += width) {
      rows.emplace_back(values.begin() + static_cast<ptrdiff_t>(at),
                        values.begin() + static_cast<ptrdiff_t>(at + width));
    }
    return rows;
  }
  Rows times(const Rows& x_ti, const std::string& name) const {  // x Wᵀ
    const Rows weight_oi = matrix(name + ".weight");
    Rows y_to(x_ti.size(), Row(weight_oi.size()));
    for (size_t t = 0; t < x_ti.size(); ++t) {
      for (size_t o = 0; o < weight_oi.size(); ++o) {
        for (size_t i = 0; i < x_ti[t].size(); ++i) y_to[t][o] += x_ti[t][i] * weight_oi[o][i];
      }
    }
    return y_to;
  }
  Rows normed(Rows x_td, const std::string& name) const {
    const Row weight = matrix(name + ".weight")[0];
    for (Row& row : x_td) {
      double squares = 0;
      for (const double x : row) squares += x * x;
      const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + kEps);
      for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight[i];
    }
    return x_td;
  }
  Rows attention(const std::string& name, const Rows& x_td) const {
    const Rows q = times(x_td, name + ".query"), k = times(x_td, name + ".key"),
               v = times(x_td, name + ".value");
    Rows out(x_td.size(), Row(kHeads * kHeadDim));
    for (size_t t = 0; t < x_td.size(); ++t) {
      for (size_t head = 0; head < kHeads; ++head) {
        Row weights;
        double sum = 0;
        for (size_t s = 0; s <= t; ++s) {
          double score = 0;
          for (size_t i = 0; i < kHeadDim; ++i) score += q[t][head * kHeadDim + i] * k[s][i];
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(kHeadDim))));
          sum += weights.back();
        }
        for (size_t s = 0; s <= t; ++s) {
          for (size_t i = 0; i < kHeadDim; ++i) out[t][head * kHeadDim + i] += weights[s] / sum * v[s][i];
        }
      }
    }
    return times(out, name + ".output");
  }
  Rows swiglu(const std::string& name, const Rows& x_td) const {
    const Rows gate = times(x_td, name + ".gate");
    Rows inner = times(x_td, name + ".up");
    for (size_t t = 0; t < inner.size(); ++t) {
      for (size_t f = 0; f < inner[t].size(); ++f) inner[t][f] *= gate[t][f] / (1 + std::exp(-gate[t][f]));
    }
    return times(inner, name + ".down");
  }
  static void add(Rows& x, const Rows& y) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += y[t][i];
    }
  }

  storage::Checkpoint checkpoint_;
};

class ModelValues : public ::testing::Test {
 protected:
  ModelValues() : folder_(fs::temp_directory_path() / ("longhaul-values-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 10; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt")) << "the cat sat on mat " << i << "\n";
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 16\nheads = 2\nkv_heads = 1\nhead_dim = 8\n"
           "vocabulary = 300\nmixers = [\"softmax\"]\nintermediate = 24\nposition = \"none\"\n"
           "[data]\ntokenizer = \"bytes\"\nsource = [\""
        << (folder_ / "text").string()
        << "\"]\n[train]\nsteps = 20\ndtype = \"fp32\"\nbatch = 4\nmicro_batch = 4\nsequence = 16\n"
           "evaluate_every = 0\n[optim]\nlr = 1e-2\nwarmup_steps = 0\n[sample]\ntokens = 0\n";
  }
  ~ModelValues() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  ProcessResult longhaul(std::vector<std::string> words) const {
    words.insert(words.begin(), program_file());
    return run_process(words, {cache_variable(path("cache")), "NO_COLOR=1"}, 180);
  }

  fs::path folder_;
};

TEST_F(ModelValues, ScoreAndEvaluateGiveTheModelsOwnNumbers) {
  const ProcessResult trained = longhaul({"train", path("tiny.toml"), "--quiet", "--run", path("run")});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  const PlainModel model(path("run"));

  const std::vector<size_t> ids = {kSeparator, 't', 'h', 'e', ' ', 'c', 'a', 't', 299, 0, 255, 'x'};
  std::ofstream(path("ids.json")) << nlohmann::json(ids).dump();
  const ProcessResult scored =
      longhaul({"score", path("run"), "--ids", path("ids.json"), "--out", path("logits"), "--dtype", "fp64"});
  ASSERT_EQ(scored.status, 0) << scored.errors;
  const auto file = storage::SafetensorsFile::open(storage::LocalFileSystem(), path("logits"));
  ASSERT_EQ(file.at("logits").shape, (std::vector<int64_t>{static_cast<int64_t>(ids.size()), kRows}));
  const auto bytes = file.read("logits");
  std::vector<float> found(bytes.size() / sizeof(float));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  const Rows expected = model.logits(ids);
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i / kRows][i % kRows], 1e-6)
        << "token " << i / kRows << ", row " << i % kRows;
    largest = std::max(largest, std::abs(static_cast<double>(found[i])));
  }
  EXPECT_GT(largest, 0.5);  // the model has learned: its logits are not all alike

  // Every byte and every end of a document is a target once; a window of kContext inputs knows nothing of the
  // one before it.
  fs::create_directories(folder_ / "other");
  const std::vector<std::string> texts = {"the cat sat on the mat and then it slept the day away", "a",
                                          "exactly sixteen."};
  double nats = 0;
  size_t targets = 0, size = 0;
  for (size_t d = 0; d < texts.size(); ++d) {
    std::ofstream(folder_ / "other" / (std::to_string(d) + ".txt")) << texts[d];
    std::vector<size_t> document = {kSeparator};
    for (const char c : texts[d]) document.push_back(static_cast<unsigned char>(c));
    document.push_back(kSeparator);
    for (size_t begin = 0; begin + 1 < document.size(); begin += kContext) {
      const size_t end = std::min(begin + kContext, document.size() - 1);
      const Rows logits = model.logits(
          {document.begin() + static_cast<ptrdiff_t>(begin), document.begin() + static_cast<ptrdiff_t>(end)});
      for (size_t t = begin; t < end; ++t) {
        double sum = 0;
        for (const double logit : logits[t - begin]) sum += std::exp(logit);
        nats += std::log(sum) - logits[t - begin][document[t + 1]];
      }
    }
    targets += document.size() - 1;
    size += texts[d].size();
  }
  const ProcessResult evaluated = longhaul({"evaluate", path("run"), "--data", path("other"), "--context",
                                            std::to_string(kContext), "--dtype", "fp64", "--json"});
  ASSERT_EQ(evaluated.status, 0) << evaluated.errors;
  const auto result = nlohmann::json::parse(evaluated.output);
  EXPECT_EQ(result["step"], 20);
  EXPECT_EQ(result["tokens"], targets);
  EXPECT_EQ(result["bytes"], size);
  const double loss = nats / static_cast<double>(targets);
  EXPECT_NEAR(result["loss"].get<double>(), loss, 1e-9);
  EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(loss), 1e-7);
  EXPECT_NEAR(result["bits_per_byte"].get<double>(), nats / std::log(2.0) / static_cast<double>(size), 1e-9);
  // In words the same figures.
  const ProcessResult said = longhaul({"evaluate", path("run"), "--data", path("other"), "--context",
                                       std::to_string(kContext), "--dtype", "fp64"});
  EXPECT_NE(said.output.find(fmt::format("step 20: {:.4f} bits per byte, loss {:.4f}",
                                         result["bits_per_byte"].get<double>(), loss)),
            std::string::npos)
      << said.output;
}

// Another key holds the text of a JSONL file: named as the commands take it.
TEST_F(ModelValues, JsonlFieldIsAnOptionOfTheCommandsThatReadText) {
  ASSERT_EQ(longhaul({"train", path("tiny.toml"), "--quiet", "--run", path("run"), "train.steps=1"}).status,
            0);
  std::ofstream(path("lines.jsonl")) << "{\"body\": \"the cat\"}\n{\"body\": \"sat\"}\n";
  const ProcessResult refused = longhaul({"evaluate", path("run"), "--data", path("lines.jsonl")});
  EXPECT_EQ(refused.status, 65);
  EXPECT_NE(refused.errors.find("--jsonl-field"), std::string::npos) << refused.errors;
  const ProcessResult taken =
      longhaul({"evaluate", path("run"), "--data", path("lines.jsonl"), "--jsonl-field", "body", "--json"});
  ASSERT_EQ(taken.status, 0) << taken.errors;
  EXPECT_EQ(nlohmann::json::parse(taken.output)["bytes"], 10);
  const std::vector<std::string> train = {"tokenizer", "train",        "--vocabulary",     "260",
                                          "--out",     path("t.json"), path("lines.jsonl")};
  EXPECT_EQ(longhaul(train).status, 65);
  std::vector<std::string> named = train;
  named.insert(named.end(), {"--jsonl-field", "body"});
  const ProcessResult learned = longhaul(named);
  EXPECT_EQ(learned.status, 0) << learned.errors;
  EXPECT_NE(learned.output.find("from 1 file, 10 B"), std::string::npos) << learned.output;
}

}  // namespace
}  // namespace longhaul::cli
