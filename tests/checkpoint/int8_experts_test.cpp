// A checkpoint opened with experts in eight bits: quantised from what is stored, tensor by tensor.
#include <gmock/gmock.h>
#include <unistd.h>

#include "checkpoint/open_model.h"
#include "checkpoint/published/naming.h"
#include "tensor/cpu_allocator.h"
#include "training_for_tests.h"

namespace longhaul::checkpoint {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SavedExperts : public ::testing::Test {
 protected:
  SavedExperts() : folder_(fs::path(::testing::TempDir()) / ("longhaul-int8-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~SavedExperts() override { fs::remove_all(folder_); }

  fs::path save(TinyTraining& training) {
    fs::path path;
    Saver saver(storage::local_file_system(), {.folder = folder_, .on_result = [&](const SaveResult& result) {
                                                 EXPECT_FALSE(result.failure) << result.failure->what();
                                                 path = result.path;
                                               }});
    saver.save(1, training.state(), training.manifest());
    saver.wait();
    return path;
  }

  fs::path folder_;
};

std::vector<std::string> with_experts(const std::vector<std::string>& more = {}) {
  std::vector<std::string> options{"model.experts=4", "model.experts_per_token=2", "model.shared_experts=1"};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

// In every dtype the numbers come from the fp32 masters, not from weights that were rounded to bf16 before.
TEST_F(SavedExperts, AreQuantisedFromWhatIsStored) {
  TinyTraining training(with_experts());
  const fs::path path = save(training);
  std::map<std::string, Tensor> stored;
  for (const auto& tensor : training.tensors()) {
    if (tensor.role == kWeightRole) stored[tensor.name] = tensor.view;
  }
  for (const char* dtype : {"bf16", "fp32", "fp64"}) {
    const OpenModel model = open_model(path, dtype, at::kCPU, {.experts = "int8"});
    int64_t quantised = 0;
    for (const auto& parameter : model.decoder->parameters().all()) {
      for (size_t i = 0; i < parameter->parts.size(); ++i) {
        const std::string& name = parameter->parts[i].spec.tensor.name;
        const Tensor& wide = stored.at(name);
        EXPECT_EQ(parameter->int8.has_value(), name.find(".experts.") != std::string::npos) << name;
        if (!parameter->int8) {
          EXPECT_TRUE(
              parameter->part_of(parameter->value.detach(), i).equal(wide.to(parameter->value.scalar_type())))
              << name;
          continue;
        }
        const auto& slice = parameter->parts[i].slice;
        const int64_t expert = slice.offset[0], first = slice.offset[1], rows = slice.length[1];
        const Tensor scale = parameter->int8->scale_eo()[expert].narrow(0, first, rows).unsqueeze(1);
        EXPECT_TRUE(scale.equal(wide.abs().amax(1, true) / 127)) << name;
        const Tensor q = parameter->int8->values(expert).narrow(0, first, rows);
        EXPECT_TRUE(q.to(at::kFloat).equal((wide / scale).round())) << name;
        ++quantised;
      }
    }
    EXPECT_EQ(quantised, 4 * 3);
  }
}

TEST_F(SavedExperts, AreNeverWideAllAtOnce) {
  install_cpu_allocator();
  fs::path path;
  int64_t one = 0;
  {
    TinyTraining training(with_experts({"model.experts=16", "model.hidden=64", "model.intermediate=512"}));
    path = save(training);
    one = 64 * 512 * 4;
  }
  const int64_t before = memory_statistics().total.bytes;
  reset_memory_peaks();
  const OpenModel model = open_model(path, "fp32", at::kCPU, {.experts = "int8"});
  const int64_t held = memory_statistics().total.bytes - before,
                peak = memory_statistics().total.peak - before;
  EXPECT_LT(held, 24 * one) << "48 matrices of 128 KiB are 12 of them in eight bits";
  EXPECT_LT(peak, held + 5 * one) << "the tensor that is being read, and what rounds it";
}

TEST_F(SavedExperts, OfADenseModelAreRefused) {
  TinyTraining training;
  const fs::path path = save(training);
  try {
    open_model(path, "", at::kCPU, {.experts = "int8"});
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("model.experts = 0"), HasSubstr("leave --experts out")));
  }
}

}  // namespace
}  // namespace longhaul::checkpoint
