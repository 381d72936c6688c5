// The recurrences beside flash-linear-attention's own plain functions: outputs, states and every gradient, of
// which tests/golden/make_flash_linear_golden.py has kept what fla-core 0.6.0 makes in fp64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/delta_rule/op.h"
#include "kernels/linear_recurrence/op.h"
#include "kernels/scan/op.h"
#include "storage/safetensors.h"
#include "support/places.h"
#include "support/tensors.h"

namespace longhaul::kernels {
namespace {

using longhaul::testing::relative_error;

Tensor golden(const std::string& name) {
  static const auto file = storage::SafetensorsFile::open(
      storage::local_file_system(), source_folder() + "/tests/golden/flash_linear.safetensors");
  const storage::TensorInfo& info = file.at(name);
  const Tensor tensor = at::empty(info.shape, at::kDouble);
  file.read(info, 0,
            {static_cast<std::byte*>(tensor.mutable_data_ptr()), static_cast<size_t>(tensor.nbytes())});
  return tensor;
}

using Values = std::map<std::string, Tensor>;
struct Made {
  Tensor o, state;
};

// `from`: names of the inputs. In fp64 with the definitions and in the forms that run, in fp32 with the
// latter.
void expect_theirs(const std::string& name, const std::vector<std::string>& from,
                   const std::function<Made(const Values&)>& ours) {
  for (const auto& [type, implementation, tolerance] :
       {std::tuple{at::kDouble, "reference", 1e-12}, {at::kDouble, "", 1e-12}, {at::kFloat, "", 5e-6}}) {
    SCOPED_TRACE(name + " " + implementation + " " + c10::toString(type));
    for (const char* op : {"linear_recurrence", "delta_rule"}) {
      Dispatcher::force(op, *implementation == 0 ? std::nullopt : std::optional<std::string>(implementation));
    }
    Values x;
    for (const std::string& key : from) x[key] = golden(name + "." + key).to(type).requires_grad_(true);
    const Made made = ours(x);
    EXPECT_LT(relative_error(made.o, golden(name + ".o")), tolerance);
    Tensor loss = made.o.to(at::kDouble).mul(golden(name + ".weight_o")).sum();
    if (made.state.defined()) {
      EXPECT_LT(relative_error(made.state, golden(name + ".state")), tolerance);
      loss = loss + made.state.to(at::kDouble).mul(golden(name + ".weight_state")).sum();
    }
    loss.backward();
    for (const std::string& key : from)
      EXPECT_LT(relative_error(x[key].grad(), golden(name + ".d_" + key)), 4 * tolerance) << key;
  }
  for (const char* op : {"linear_recurrence", "delta_rule"}) Dispatcher::force(op, std::nullopt);
}

Made recurred(const Values& x, const Tensor& log_decay, double scale, bool tied = false) {
  const auto found = x.find("initial");
  const LinearRecurrenceResult made = linear_recurrence(
      x.at("q"), tied ? Tensor() : x.at("k"), x.at("v"), log_decay,
      found == x.end() ? Tensor() : found->second, Tensor(), {.scale = scale, .tied_keys = tied});
  return {made.o_thd, found == x.end() ? Tensor() : made.final_state_nhkv};
}

const double kFlashScale = 1 / std::sqrt(5.0);  // keys: the package's default

TEST(FlashLinearAttention, Recurrences) {
  expect_theirs("retention", {"q", "k", "v"}, [](const Values& x) {
    const Tensor log_decay = at::tensor({std::log1p(-std::exp2(-5)), std::log1p(-std::exp2(-6))}, at::kDouble)
                                 .to(x.at("q").scalar_type());
    return recurred(x, log_decay, kFlashScale);
  });
  expect_theirs("gla", {"q", "k", "v", "initial", "log_decay"},
                [](const Values& x) { return recurred(x, x.at("log_decay"), kFlashScale); });
  expect_theirs("hgrn2", {"q", "v", "initial", "log_decay"},
                [](const Values& x) { return recurred(x, x.at("log_decay"), kFlashScale, true); });
  expect_theirs("mamba2", {"q", "k", "v", "initial", "log_decay"},
                [](const Values& x) { return recurred(x, x.at("log_decay"), 1); });
  expect_theirs("lightning", {"q", "k", "v", "initial", "log_decay"},
                [](const Values& x) { return recurred(x, x.at("log_decay"), 1); });
}

TEST(FlashLinearAttention, DeltaRules) {
  for (const char* name : {"delta_rule", "gated_delta_rule", "kda"}) {
    std::vector<std::string> from = {"q", "k", "v", "beta", "initial"};
    if (std::string(name) != "delta_rule") from.emplace_back("log_decay");
    expect_theirs(name, from, [](const Values& x) {
      const auto decay = x.find("log_decay");
      const LinearRecurrenceResult made =
          delta_rule({.q_tgk = x.at("q"),
                      .k_tgk = x.at("k"),
                      .v_thv = x.at("v"),
                      .beta_th = x.at("beta"),
                      .log_decay = decay == x.end() ? Tensor() : decay->second,
                      .initial_state_nhkv = x.at("initial"),
                      .scale = kFlashScale});
      return Made{made.o_thd, made.final_state_nhkv};
    });
  }
}

TEST(FlashLinearAttention, Hgrn) {
  expect_theirs("hgrn", {"u", "log_decay", "initial"}, [](const Values& x) {
    const DecayedSum made = decayed_sum(x.at("log_decay").exp(), x.at("u"), Tensor(), x.at("initial"));
    return Made{made.h_tc, made.final_state_nc};
  });
}

}  // namespace
}  // namespace longhaul::kernels
