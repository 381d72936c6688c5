// Published calculators, as their code computes, and the tables that they print: what other people's figures are made of, and a check of ours.
//   LLMCarbon (ICLR 2024, github.com/SotaroKaneda/MLCarbon), ML CO2 Impact (github.com/mlco2/impact), CodeCarbon's mix of power stations
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace longhaul::plan {

struct LlmCarbonQuestion {
  double parameters = 0, tokens = 0;  // of experts: those of the dense base
  double devices = 0, peak = 0, efficiency = 0, system_watts = 0;
  double pue = 1, kg_per_kwh = 0;
};
struct LlmCarbonAnswer {
  double flops = 0, days = 0, mwh = 0, tonnes = 0;
};
LlmCarbonAnswer llm_carbon(const LlmCarbonQuestion& question);

// Its polynomials of a dense model's size: V100s that it would have trained on, and TFLOP/s of one by tensor and by pipeline parallelism. Fits, outside
// of whose range (some 10 to 1,000 milliards of parameters) they fall below nothing.
struct LlmCarbonFit {
  double devices = 0, tensor_parallel_tflops = 0, pipeline_tflops = 0;
};
LlmCarbonFit llm_carbon_fit(double parameters);

// CodeCarbon's power of memory: by modules (version 3, x86) and by size (version 2).
double code_carbon_memory_watts(int64_t modules);
double code_carbon_memory_watts_v2(double gigabytes);

struct EmbodiedPart {
  double count = 0, kg = 0;  // of one
};
double embodied_tonnes(const std::vector<EmbodiedPart>& parts, double days, double life_days);

double impact_kg(double thermal_watts, double hours, double g_per_kwh);  // ML CO2 Impact: no PUE, nothing embodied

// Every published figure beside what is computed here.
struct CalculatorRow {
  std::string calculator, name, unit;
  double published = 0, computed = 0, allowed = 0;  // allowed: distance
  bool fitted = false;  // what it is computed from was solved from this figure, or chosen to fit it: that they agree shows nothing
  bool good() const;
};
std::vector<CalculatorRow> calculator_rows();

}  // namespace longhaul::plan
