#include "data/order/staged_loader.h"

#include <algorithm>

#include "base/error.h"
#include "data/corpus/skip_file.h"

namespace longhaul::data {
namespace {

int64_t whole_sequences(int64_t tokens, int64_t sequence) { return (tokens + sequence - 1) / sequence; }

// The loaders of two stretches number their samples independently, and ask one share.
class ApartShare final : public BatchShare {
 public:
  ApartShare(std::shared_ptr<BatchShare> share, int64_t apart) : share_(std::move(share)), apart_(apart) {}
  Batch get(int64_t first, int64_t rows, const std::function<Batch()>& make) override {
    return share_->get(first + apart_, rows, make);
  }

 private:
  std::shared_ptr<BatchShare> share_;
  int64_t apart_;
};

}  // namespace

StagedLoader::StagedLoader(std::vector<const TokenDataset*> datasets,
                           std::function<LoaderOptions(int64_t)> options_of,
                           std::vector<SequenceStretch> stretches)
    : datasets_(std::move(datasets)), options_of_(std::move(options_of)), stretches_(std::move(stretches)) {
  LONGHAUL_ASSERT(!stretches_.empty() && stretches_[0].first_step == 0, "{} stretches", stretches_.size());
  const LoaderOptions options = options_of_(stretches_[0].sequence);
  first_position_ = options.first_position;
  skip_ = merged(options.skip);
  loader_of(0);  // refuses data that cannot be read
}

size_t StagedLoader::stretch_of(int64_t step) const {
  const auto after = std::ranges::upper_bound(stretches_, step, {}, &SequenceStretch::first_step);
  LONGHAUL_ASSERT(after != stretches_.begin(), "step {}", step);
  return static_cast<size_t>(after - stretches_.begin()) - 1;
}

// The one after the last sample of the stretch before it.
int64_t StagedLoader::first_sample(size_t stretch) const {
  const int64_t position = first_position_(stretches_[stretch].first_step);
  return position == 0 ? 0 : sample_at(position - 1, skip_) + 1;
}

std::vector<SampleRange> StagedLoader::own_ranges(size_t stretch) const {
  const int64_t first = first_sample(stretch);
  const int64_t own = whole_sequences(stretches_[stretch].first_token, stretches_[stretch].sequence);
  std::vector<SampleRange> ranges;
  for (const SampleRange& range : skip_) {
    if (range.begin >= first) ranges.push_back({range.begin - first + own, range.end - first + own});
  }
  return ranges;
}

Loader& StagedLoader::loader_of(int64_t step) {
  const size_t stretch = stretch_of(step);
  Made& made = made_[stretch];
  if (made.loader) return *made.loader;
  const SequenceStretch& of = stretches_[stretch];
  LoaderOptions options = options_of_(of.sequence);
  const int64_t own = whole_sequences(of.first_token, of.sequence), first = first_position_(of.first_step);
  const std::function<int64_t(int64_t)> whole = first_position_;
  const bool last = stretch + 1 == stretches_.size();
  const int64_t end = last ? 0 : stretches_[stretch + 1].first_step;
  // Nothing is read ahead of the end: the steps behind it have another length.
  options.first_position = [=](int64_t of_step) {
    return own + whole(last ? of_step : std::min(of_step, end)) - first;
  };
  options.skip = own_ranges(stretch);
  if (options.share && stretches_.size() > 1)
    options.share = std::make_shared<ApartShare>(options.share, first - own + (makings_ << 50));
  ++makings_;
  made = {first_sample(stretch), std::make_unique<Loader>(datasets_, std::move(options))};
  return *made.loader;
}

void StagedLoader::pass_over(const std::vector<SampleRange>& ranges) {
  skip_.insert(skip_.end(), ranges.begin(), ranges.end());
  skip_ = merged(std::move(skip_));
  // Where an earlier stretch leaves out more, the numbers of a later one are others.
  std::erase_if(made_,
                [&](const auto& entry) { return entry.second.first_sample != first_sample(entry.first); });
  for (auto& [stretch, made] : made_) made.loader->pass_over(own_ranges(stretch));
}

SampleRange StagedLoader::samples_of(int64_t first_step, int64_t last_step) const {
  const int64_t from = std::max(first_step, stretches_[stretch_of(last_step)].first_step);
  return {sample_at(first_position_(from), skip_), sample_at(first_position_(last_step + 1) - 1, skip_) + 1};
}

DataPosition StagedLoader::position_before(int64_t step) {
  DataPosition position = loader_of(std::max<int64_t>(0, step - 1)).position_before(step);
  position.first_sample = first_position_(step);
  position.skip = skip_;
  return position;
}

}  // namespace longhaul::data
