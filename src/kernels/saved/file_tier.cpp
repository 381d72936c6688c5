#include "kernels/saved/file_tier.h"

#include <span>

#include "base/error.h"
#include "base/log.h"

namespace longhaul::kernels {
namespace {

std::span<std::byte> bytes_of(const Tensor& x) {
  return {static_cast<std::byte*>(x.mutable_data_ptr()), x.nbytes()};
}

}  // namespace

Tensor InTier::still_here() {
  written_->finish();
  return *held_;
}

FileTier::FileTier(const std::filesystem::path& folder, double bytes_per_second)
    : space_(std::make_shared<FileSpace>(folder)),
      writes_("offload write", at::kCPU, bytes_per_second),
      reads_("offload read", at::kCPU, bytes_per_second) {}

std::shared_ptr<InTier> FileTier::write(const Tensor& from, std::shared_ptr<Copy> after) {
  LONGHAUL_ASSERT(from.is_cpu() && from.is_contiguous());
  const auto bytes = static_cast<int64_t>(from.nbytes());
  std::shared_ptr<InTier> lies(new InTier(space_, bytes));
  *lies->held_ = from;
  lies->written_ = writes_.start(
      [space = space_, failed = failed_, held = lies->held_, place = lies->place_] {
        if (failed->load()) return;
        try {
          space->file().write_at(place, bytes_of(*held));
        } catch (const Error& error) {
          failed->store(true);
          log_warning("what the host has no room for stays on the device from now on: {}", error.what());
          return;
        }
        *held = Tensor();
      },
      bytes, std::move(after));
  return lies;
}

std::shared_ptr<Copy> FileTier::read(const InTier& lies, const Tensor& into) {
  LONGHAUL_ASSERT(into.is_cpu() && into.is_contiguous() &&
                  static_cast<int64_t>(into.nbytes()) == lies.bytes_);
  return reads_.start(
      [space = space_, held = lies.held_, place = lies.place_, into = Tensor(into)] {
        if (!held->defined()) space->file().read_exactly(place, bytes_of(into));
      },
      lies.bytes_, lies.written_);
}

}  // namespace longhaul::kernels
