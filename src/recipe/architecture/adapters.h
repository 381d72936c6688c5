// AdapterOptions: [lora] of a recipe: low-rank adapters beside frozen weights (LoRA, arXiv 2106.09685;
// rsLoRA, 2312.03732; DoRA, 2402.09353). With a rank, every weight of the model is frozen, and each targeted
// matrix W [out, in] has two trained ones, A [rank, in] and B [out, rank]: y = W x + scale · B (A x). DoRA
// also trains the length of each row. layout/adapters.h lists the tensors; docs/guides/adapters.md says how
// to use them. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;
struct ModelConfig;
struct Problem;  // recipe/check.h

enum class AdapterKind { kLora, kRslora, kDora };
std::vector<std::string_view> names_of(AdapterKind);

// as PEFT has it: every linear layer except the head
inline constexpr std::string_view kAllLinear = "all-linear";

struct AdapterOptions {
  int64_t rank = 0;  // 0: none
  double alpha = 16;
  std::vector<std::string> targets = {std::string(kAllLinear)};
  AdapterKind kind = AdapterKind::kLora;

  bool wanted() const { return rank > 0; }
  double scale() const;  // alpha / rank; rsLoRA: alpha / √rank
  bool operator==(const AdapterOptions&) const = default;
};

void declare(OptionSet& set, AdapterOptions& lora);
void check_adapters(const ModelConfig& model, std::vector<Problem>& out);

}  // namespace longhaul::recipe
