// Published carbon calculators, computed as in their code, and the tables that they print. They show how
// other people's numbers were made, and check ours.
//   LLMCarbon (ICLR 2024, github.com/SotaroKaneda/MLCarbon), ML CO2 Impact (github.com/mlco2/impact),
//   CodeCarbon's mix of power stations
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::plan {

struct LlmCarbonQuestion {
  double parameters = 0, tokens = 0;  // for a model with experts: those of the dense base
  double devices = 0, peak = 0, efficiency = 0, system_watts = 0;
  double pue = 1, kg_per_kwh = 0;
};
struct LlmCarbonAnswer {
  double flops = 0, days = 0, mwh = 0, tonnes = 0;
};
LlmCarbonAnswer llm_carbon(const LlmCarbonQuestion& question);

// LLMCarbon's polynomials of a dense model's size: the number of V100s that it would have been trained on,
// and TFLOP/s of one by tensor and by pipeline parallelism. They are fits, which fall below zero outside
// their range (some 10 to 1,000 billion parameters).
struct LlmCarbonFit {
  double devices = 0, tensor_parallel_tflops = 0, pipeline_tflops = 0;
};
LlmCarbonFit llm_carbon_fit(double parameters);

// CodeCarbon's memory power: by modules (version 3, x86) and by size (version 2).
double code_carbon_memory_watts(int64_t modules);
double code_carbon_memory_watts_v2(double gigabytes);

struct EmbodiedPart {
  double count = 0, kg = 0;  // kg of one
};
double embodied_tonnes(const std::vector<EmbodiedPart>& parts, double days, double life_days);

// ML CO2 Impact: no PUE, nothing embodied.
double impact_kg(double thermal_watts, double hours, double g_per_kwh);

// CalculatorRow: a published number with the one computed here.
struct CalculatorRow {
  std::string calculator, name, unit;
  double published = 0, computed = 0, allowed = 0;  // allowed: the largest difference
  // An input was solved from this number, or chosen to fit it, so that agreement proves nothing.
  bool fitted = false;
  bool good() const;
};
std::vector<CalculatorRow> calculator_rows();

}  // namespace longhaul::plan
