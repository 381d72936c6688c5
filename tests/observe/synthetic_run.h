// A run folder made up for tests: the curves of a small model, with evaluations, checkpoints, and whatever
// trouble is asked for.
#pragma once

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include "base/files/file.h"
#include "base/random.h"
#include "observe/events/event.h"

namespace longhaul::observe::test {

struct SyntheticRun {
  int64_t steps = 400;
  int64_t evaluate_every = 50;  // 0: never
  int64_t checkpoint_every = 100;
  int64_t resume_at = 0;  // stop 20 steps after this checkpoint and go on from it; 0: no
  int64_t nan_at = 0;     // this step's loss is NaN
  bool finished = true;
  bool sample = true;
};

class SyntheticWriter {
 public:
  explicit SyntheticWriter(const SyntheticRun& shape) : shape_(shape) {}

  std::string text() {
    start(1);
    int64_t step = 1;
    if (shape_.resume_at > 0) {
      for (; step <= shape_.resume_at + 20; ++step) one_step(step);
      add_memory();
      start(2);
      add(Resume{.step = shape_.resume_at});
      step = shape_.resume_at + 1;
    }
    for (; step <= shape_.steps; ++step) one_step(step);
    if (shape_.sample) {
      add(Sample{
          .step = shape_.steps,
          .prompt = "def forward(self, hidden",
          .text = ", mask=None):\n    \"\"\"Return the <hidden> state & its norm.\"\"\"\n    hidden = "
                  "self.norm(hidden)\n    for layer in self.layers:\n"
                  "        hidden = layer(hidden, mask)\n    return hidden, torch.norm(hidden, dim=-1)\n"});
    }
    if (shape_.finished) add_memory();
    if (shape_.finished) add(End{.reason = "finished", .step = shape_.steps});
    return text_;
  }

 private:
  void add(EventBody body) {
    text_ += to_json({.common = {.run = "20261121T023605-5f3a9c01",
                                 .generation = generation_,
                                 .wall_time = time_,
                                 .monotonic_ns = static_cast<int64_t>(time_ * 1e9)},
                      .body = std::move(body)}) +
             "\n";
  }
  void start(int64_t generation) {
    generation_ = generation;
    add(RunStart{.name = "first-run",
                 .version = "0.1.0",
                 .commit = "d53a6b7c41",
                 .compiler = "g++ 12.2.0",
                 .libtorch = "2.13.0+cpu",
                 .host = "bare",
                 .operating_system = "Debian GNU/Linux 12 (bookworm), Linux 6.1.0",
                 .processor = "AMD EPYC 9B14",
                 .cpu_features = {"avx2", "fma", "avx512f", "avx512_bf16"},
                 .device = "cpu",
                 .dtype = "bf16",
                 .threads = 2,
                 .seed = 1,
                 .recipe_hash = "9a1c6f0e2b7d4432",
                 .model = "first-run",
                 .parameters = 9'437'184,
                 .parameters_per_token = 6'291'456,
                 .steps = shape_.steps,
                 .tokens_per_step = 8192,
                 .sequence = 512,
                 .vocabulary = 8192,
                 .flops_per_token = 4.1e7,
                 .flops_per_token_full_attention = 4.4e7,
                 .peak_flops_per_second = 1.06e12,
                 .training_tokens = 11'900'000,
                 .training_bytes = 45'100'000,
                 .heldout_bytes = 463'000,
                 .memory_bytes = 8'230'000'000});
    if (shape_.evaluate_every > 0)
      add(CompressionBaseline{.gzip_bits_per_byte = 1.8203, .xz_bits_per_byte = 1.6671});
  }
  void add_memory() {
    add(MeasuredMemory{"parameters", 18'874'368, 18'874'368, 18'874'368});
    add(MeasuredMemory{"activations", 0, 301'989'888, 299'892'736});
    add(MeasuredMemory{"of the machine", 402'653'184, 505'413'632, {}});
  }
  double curve(int64_t step) const {  // nats per token
    const double x = static_cast<double>(step) / static_cast<double>(shape_.steps);
    return 3.95 + 5.1 * std::exp(-40 * x) + 1.9 * std::exp(-5 * x) - 0.12 * x;
  }
  void one_step(int64_t step) {
    const auto n = static_cast<uint64_t>(step);
    const double x = static_cast<double>(step) / static_cast<double>(shape_.steps);
    const double milliseconds = 590 + 25 * std::abs(noise_.normal(4 * n)) + (step % 97 == 0 ? 900 : 0);
    time_ += milliseconds * 1e-3;
    const bool bad = step == shape_.nan_at;
    if (bad)
      add(NonFinite{
          .step = step, .layer = "layers.3", .tensor = "layers.3.mixer.q.weight", .phase = "gradient"});
    add(StepReport{
        .step = step,
        .loss =
            bad ? std::numeric_limits<double>::quiet_NaN() : curve(step) + 0.09 * noise_.normal(4 * n + 1),
        .tokens = step * 8192,
        .tokens_per_second = 8192 / milliseconds * 1e3,
        .grad_norm = bad ? std::numeric_limits<double>::infinity()
                         : (0.35 + 6 * std::exp(-30 * x)) * std::exp(0.25 * noise_.normal(4 * n + 2)),
        .learning_rate = 1.5e-3 * std::min(1.0, x / 0.05) * (x < 0.7 ? 1 : 0.1 + 0.9 * (1 - x) / 0.3),
        .milliseconds = milliseconds,
        .mfu = 8192 / milliseconds * 1e3 * 4.1e7 / 1.06e12,
        .mfu_full_attention = 8192 / milliseconds * 1e3 * 4.4e7 / 1.06e12,
        .data_wait_milliseconds = 0.3 + 0.2 * noise_.uniform(4 * n + 3),
        .resident_bytes = 1'420'000'000 + step * 1000,
        .skipped = bad ? std::optional(true) : std::nullopt});
    if (shape_.evaluate_every > 0 && (step % shape_.evaluate_every == 0 || step == shape_.steps)) {
      const double loss = curve(step) + 0.03;
      add(Evaluation{.step = step,
                     .loss = loss,
                     .bits_per_byte = loss / std::log(2.0) / 3.6,
                     .perplexity = std::exp(loss)});
    }
    if (shape_.checkpoint_every > 0 && step % shape_.checkpoint_every == 0) {
      add(CheckpointSaved{
          .step = step, .path = "checkpoints/step-" + std::to_string(step), .blocking_milliseconds = 11.8});
    }
  }

  SyntheticRun shape_;
  RandomStream noise_{1, "test/synthetic-run"};
  std::string text_;
  int64_t generation_ = 1;
  double time_ = 1.7950e9;
};

inline void write_synthetic_run(const std::filesystem::path& folder, const SyntheticRun& shape) {
  File file = File::open(folder / "events.jsonl", File::Mode::kCreate);
  file.write(SyntheticWriter(shape).text());
  file.close();
}

}  // namespace longhaul::observe::test
