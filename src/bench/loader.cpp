#include "bench/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/files/temporary_folder.h"
#include "base/statistics.h"
#include "base/threads/worker.h"
#include "bench/models/small_text.h"
#include "data/run_data.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kLoaderRows = 8, kLoaderSequence = 64;  // of a step
constexpr int kTexts = 200;
constexpr double kTokenBytes = 2;  // in a shard of bytes

void pass_time(double seconds) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::duration<double>(seconds), [] { return false; });
}

// One read at a time, each as long as its bytes take.
class ThrottledDisk {
 public:
  explicit ThrottledDisk(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}
  void read(double bytes) {
    const std::lock_guard lock(mutex_);
    pass_time(bytes / bytes_per_second_);
    bytes_ += bytes;
  }
  double bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  double bytes_per_second_;
  std::atomic<double> bytes_ = 0;
};

// A reader's way to its batches: through the disk, by others' readings where they share.
class FromDisk final : public data::BatchShare {
 public:
  FromDisk(ThrottledDisk& disk, std::shared_ptr<data::BatchShare> shared)
      : disk_(disk), shared_(std::move(shared)) {}
  data::Batch get(int64_t first, int64_t rows, const std::function<data::Batch()>& make) override {
    const auto read = [&] {
      disk_.read(kTokenBytes * static_cast<double>(rows * kLoaderSequence));
      return make();
    };
    return shared_ ? shared_->get(first, rows, read) : read();
  }

 private:
  ThrottledDisk& disk_;
  std::shared_ptr<data::BatchShare> shared_;
};

LoaderRow measure_readers(const LoaderRequest& request, const data::RunData& data, bool shared) {
  const TemporaryFolder folder;
  const auto options = [&] {
    data::LoaderOptions each = data::with_batch(data::loader_options({}, kLoaderSequence), kLoaderRows);
    each.prefetch = 2;
    return each;
  };
  data::LoaderOptions plain = options();
  plain.prefetch = 0;
  plain.index_folder = folder.path();
  const data::Loader alone(data.train(), plain);
  alone.batch_at(0);  // the packing index is made once, and not timed

  ThrottledDisk disk(kTokenBytes * kLoaderRows * kLoaderSequence / (request.read * request.step_s));
  std::vector<double> waited(static_cast<size_t>(request.readers)), stalls;
  std::atomic<bool> same = true;
  std::barrier all_have(request.readers,
                        [&]() noexcept { stalls.push_back(*std::ranges::max_element(waited)); });
  std::barrier all_computed(request.readers);
  const auto reader = [&](int64_t rank) {
    data::LoaderOptions own = options();
    own.index_folder = folder.path();
    own.share = std::make_shared<FromDisk>(
        disk, shared ? data::share_in_folder(folder / "shared", request.readers) : nullptr);
    data::Loader loader(data.train(), own);
    for (int64_t step = 0; step < request.steps; ++step) {
      const Stopwatch watch;
      const data::Batch batch = loader.take(step);
      waited[static_cast<size_t>(rank)] = watch.seconds();
      all_have.arrive_and_wait();
      if (batch != alone.batch_at(step)) same = false;
      pass_time(request.step_s);
      all_computed.arrive_and_wait();
    }
  };
  std::filesystem::create_directories(folder / "shared");
  const Stopwatch watch;
  std::vector<std::unique_ptr<Worker>> readers;
  for (int64_t rank = 0; rank < request.readers; ++rank) {
    readers.push_back(std::make_unique<Worker>(fmt::format("reader {}", rank)));
    readers.back()->post([&, rank] { reader(rank); });
  }
  for (const auto& each : readers) each->wait();
  const double wall_s = watch.seconds();
  return {.shared = shared,
          .bytes = disk.bytes(),
          .stall_s = median({stalls.begin() + 1, stalls.end()}),
          .wall_s = wall_s,
          .same_batches = same};
}

}  // namespace

std::vector<LoaderRow> measure_loader(const LoaderRequest& request) {
  const TemporaryFolder folder;
  write_small_text(folder / "text", kTexts);
  recipe::DataOptions options;
  options.source = {(folder / "text").string()};
  options.tokenizer = "bytes";
  const data::RunData data = data::open_run_data(options, {}, folder / "cache");
  return {measure_readers(request, data, false), measure_readers(request, data, true)};
}

nlohmann::ordered_json to_json(const LoaderRequest& request, const LoaderRow& row) {
  return {{"name", "loader"},       {"readers", request.readers},
          {"steps", request.steps}, {"shared", row.shared},
          {"bytes", row.bytes},     {"stall_s", row.stall_s},
          {"wall_s", row.wall_s},   {"same_batches", row.same_batches}};
}

observe::Table table_of(const LoaderRequest& request, const std::vector<LoaderRow>& rows) {
  using observe::Align;
  observe::Table table(fmt::format("{} readers of the same rows, {} steps of {:.0f} ms", request.readers,
                                   request.steps, 1e3 * request.step_s),
                       {{"they read"},
                        {"bytes", Align::kRight},
                        {"stall, ms", Align::kRight},
                        {"all, s", Align::kRight},
                        {"batches"}});
  for (const LoaderRow& row : rows) {
    table.row({row.shared ? "once, through memory" : "each for itself", fmt::format("{:.0f}", row.bytes),
               fmt::format("{:.1f}", 1e3 * row.stall_s), fmt::format("{:.2f}", row.wall_s),
               row.same_batches ? "the same" : "DIFFER"});
  }
  return table;
}

}  // namespace longhaul::bench
