#include "data/order/loader.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/process/fault_point.h"
#include "base/threads/background_work.h"
#include "base/threads/worker.h"
#include "data/corpus/skip_file.h"
#include "data/order/staged_loader.h"

namespace longhaul::data {

struct Loader::Indexes {
  std::mutex mutex;
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<const PackingIndex>> open;  // by dataset, epoch
};

struct Loader::Prefetch {
  struct Slot {
    int64_t first, rows;
    std::shared_future<Batch> batch;
  };
  // Nobody needs the waiting batches: the run ends, perhaps for lack of memory.
  std::atomic<bool> abandoned = false;
  std::map<int64_t, Slot> slots;   // by step
  Worker worker{"data-prefetch"};  // last: ends before the slots are destroyed
};

namespace {

constexpr double kIndex_s = 1800;  // the first batch may make the packing index of an epoch

void refuse_other_count(const char* key, size_t weights, size_t datasets) {
  if (weights == datasets) return;
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("{} does not fit data.source", key),
               .expected = fmt::format("{} weights", datasets),
               .found = fmt::format("{}", weights)});
}

std::vector<double> weights_of(const std::vector<const TokenDataset*>& datasets,
                               const std::vector<double>& weights) {
  if (datasets.empty()) {
    throw Error(
        {.code = ExitCode::kData, .what = "there is no dataset to train on", .hint = "set data.source"});
  }
  for (const TokenDataset* dataset : datasets) {
    if (dataset->documents() == 0) {
      throw Error({.code = ExitCode::kData,
                   .what = "a dataset has no document to train on",
                   .where = dataset->folder().string(),
                   .hint = "set data.source to more text"});
    }
    if (dataset->identity().tokenizer_sha256 != datasets[0]->identity().tokenizer_sha256) {
      throw Error({.code = ExitCode::kData,
                   .what = "datasets of different tokenizers cannot be blended",
                   .expected = datasets[0]->identity().tokenizer_sha256,
                   .found = dataset->identity().tokenizer_sha256,
                   .where = dataset->folder().string()});
    }
  }
  if (!weights.empty()) refuse_other_count("data.weights", weights.size(), datasets.size());
  if (!weights.empty()) return weights;
  std::vector<double> by_size;
  for (const TokenDataset* dataset : datasets) by_size.push_back(static_cast<double>(dataset->labels()));
  return by_size;
}

}  // namespace

LoaderOptions with_batch(LoaderOptions options, int64_t batch) {
  options.first_position = [batch](int64_t step) { return step * batch; };
  return options;
}

Loader::Loader(std::vector<const TokenDataset*> datasets, LoaderOptions options)
    : datasets_(std::move(datasets)),
      options_(std::move(options)),
      blend_(weights_of(datasets_, options_.weights)),
      indexes_(std::make_unique<Indexes>()),
      prefetch_(std::make_unique<Prefetch>()) {
  LONGHAUL_ASSERT(options_.first_position != nullptr, "a loader needs a schedule");
  for (const BlendPoint& point : options_.mix)
    refuse_other_count("data.mix", point.weights.size(), datasets_.size());
  if (!options_.mix.empty()) moving_.emplace(options_.mix);
  if (options_.sequence < 1) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the sequence length must be at least 1",
                 .found = std::to_string(options_.sequence)});
  }
  options_.skip = merged(std::move(options_.skip));
  weighted_ = any_weighted(datasets_);
  for (const TokenDataset* dataset : datasets_)
    samples_.push_back(PackingIndex::samples(*dataset, options_.sequence));
}

Loader::~Loader() { prefetch_->abandoned = true; }

void Loader::pass_over(const std::vector<SampleRange>& ranges) {
  std::vector<SampleRange> all = options_.skip;
  all.insert(all.end(), ranges.begin(), ranges.end());
  all = merged(std::move(all));
  if (all == options_.skip) return;
  for (auto& [step, slot] : prefetch_->slots) slot.batch.wait();  // its thread reads the list
  prefetch_->slots.clear();
  options_.skip = std::move(all);
  ++lists_;
}

SampleRange Loader::samples_of(int64_t first_step, int64_t last_step) const {
  return {sample_at(options_.first_position(first_step)),
          sample_at(options_.first_position(last_step + 1) - 1) + 1};
}

int64_t Loader::sample_at(int64_t position) const { return data::sample_at(position, options_.skip); }

Loader::Origin Loader::origin_of(int64_t sample) const {
  const Blend::Place place = moving_ ? moving_->at(sample) : blend_.at(sample);
  const int64_t per_epoch = samples_[static_cast<size_t>(place.dataset)];
  return {place.dataset, place.index / per_epoch, place.index % per_epoch};
}

double Loader::share(int64_t dataset, int64_t sample) const {
  return moving_ ? moving_->share(dataset, sample) : blend_.weight(dataset);
}

std::shared_ptr<const PackingIndex> Loader::index(int64_t dataset, int64_t epoch) const {
  std::lock_guard lock(indexes_->mutex);
  auto& slot = indexes_->open[{dataset, epoch}];
  if (!slot) {
    const TokenDataset& of = *datasets_[static_cast<size_t>(dataset)];
    slot = std::make_shared<PackingIndex>(PackingIndex::open_or_make(
        of, options_.sequence, epoch, options_.seed,
        options_.index_folder.empty() ? of.folder().parent_path() : options_.index_folder));
    // Two epochs meet in a batch; older ones are not needed again in order, and reopen quickly.
    std::erase_if(indexes_->open, [&](const auto& entry) {
      return entry.first.first == dataset && entry.first.second < epoch - 1;
    });
    return indexes_->open[{dataset, epoch}];
  }
  return slot;
}

std::vector<DocumentSpan> Loader::spans_of(int64_t sample) const {
  const Origin origin = origin_of(sample);
  return index(origin.dataset, origin.epoch)
      ->sample(*datasets_[static_cast<size_t>(origin.dataset)], origin.index);
}

Batch Loader::batch_of(int64_t first_position, int64_t rows) const {
  BatchBuilder builder(weighted_);
  int64_t bytes = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t sample = sample_at(first_position + row);
    fault_point("data.sample", sample);
    const TokenDataset& dataset = *datasets_[static_cast<size_t>(origin_of(sample).dataset)];
    bool first = true;
    for (const DocumentSpan& part : spans_of(sample)) {
      if (!options_.document_boundaries && !first) builder.join();
      first = false;
      const auto span = builder.add(part.length);
      read_span(dataset, part, span.inputs, span.labels);
      bytes += weighted_ ? weigh_span(dataset, part, span.labels, span.weights) : span_bytes(dataset, part);
    }
  }
  builder.batch().first_position = first_position;
  builder.batch().rows = rows;
  builder.batch().sequence = options_.sequence;
  builder.batch().target_bytes = bytes;
  return builder.finish();
}

Batch Loader::batch_at(int64_t step) const { return batch_at(step, 0, 1); }

Loader::Rows Loader::rows_of(int64_t step, int64_t rank, int64_t ranks) const {
  const int64_t first = options_.first_position(step), rows = options_.first_position(step + 1) - first;
  LONGHAUL_ASSERT(rank >= 0 && rank < ranks && rows >= 0, "rank {} of {}, {} rows", rank, ranks, rows);
  const int64_t begin = rows * rank / ranks, end = rows * (rank + 1) / ranks;
  return {first + begin, end - begin};
}

Batch Loader::batch_at(int64_t step, int64_t rank, int64_t ranks) const {
  const Rows rows = rows_of(step, rank, ranks);
  return batch_of(rows.first, rows.count);
}

Batch Loader::shared(const Rows& rows) const {
  const auto make = [&] { return batch_of(rows.first, rows.count); };
  // With another skip list the same rows are another batch.
  return options_.share ? options_.share->get(rows.first + (lists_ << 40), rows.count, make) : make();
}

Batch Loader::take(int64_t step) {
  auto& slots = prefetch_->slots;
  slots.erase(slots.begin(), slots.lower_bound(step));
  const auto ensure = [&](int64_t wanted) {
    const Rows rows = rows_of(wanted, options_.replica, options_.replicas);
    if (rows.count == 0 && wanted > step) return;  // the order ends before it
    const auto found = slots.find(wanted);
    // else the schedule changed
    if (found != slots.end() && found->second.first == rows.first && found->second.rows == rows.count) return;
    auto task = std::make_shared<std::packaged_task<Batch()>>([this, rows] { return shared(rows); });
    slots[wanted] = {rows.first, rows.count, task->get_future().share()};
    prefetch_->worker.post([task, &abandoned = prefetch_->abandoned] {
      const BackgroundTask told("read ahead", kIndex_s);
      if (!abandoned) (*task)();
    });
  };
  if (options_.prefetch <= 0) return shared(rows_of(step, options_.replica, options_.replicas));
  for (int64_t ahead = 0; ahead <= options_.prefetch; ++ahead) ensure(step + ahead);
  const auto future = slots.at(step).batch;
  slots.erase(step);
  return future.get();  // rethrows what went wrong in the background
}

DataPosition Loader::position_before(int64_t step) const {
  DataPosition position;
  position.first_sample = options_.first_position(step);
  position.skip = options_.skip;
  for (const TokenDataset* dataset : datasets_) position.datasets.push_back(dataset->fingerprint());
  position.tokenizer_sha256 = datasets_[0]->identity().tokenizer_sha256;
  position.sequence = options_.sequence;
  position.seed = options_.seed;
  return position;
}

double Loader::epochs_at(int64_t step) const {
  int64_t samples = 0;
  for (int64_t of_dataset : samples_) samples += of_dataset;
  return static_cast<double>(options_.first_position(step)) / static_cast<double>(samples);
}

}  // namespace longhaul::data
