#include "kernels/spikes/codings.h"

#include <algorithm>
#include <array>

#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

constexpr std::array<std::string_view, 5> kCodingNames = {"binary", "ternary", "unsigned_bits", "signed_bits",
                                                          "twos_complement"};

bool has_sign(Coding coding) { return coding == Coding::kTernary || coding == Coding::kSignedBits; }
bool shifts_negative(Coding coding) { return coding == Coding::kBinary || coding == Coding::kUnsignedBits; }
bool of_units(Coding coding) { return coding == Coding::kBinary || coding == Coding::kTernary; }

Tensor whole_counts(const Tensor& count) {
  if (count.dim() != 2) refuse_argument("encode", "count", "[tokens, channels]", shape_text(count));
  return count.to(at::kLong);
}

// The smallest and largest of each token; 0 of one without channels.
Tensor least_of(const Tensor& count) {
  return count.size(1) == 0 ? at::zeros({count.size(0)}, count.options()) : count.amin(1);
}
Tensor most_of(const Tensor& count) {
  return count.size(1) == 0 ? at::zeros({count.size(0)}, count.options()) : count.amax(1);
}

Tensor zero_of(const Tensor& count, Coding coding, bool centred) {
  const Tensor least = least_of(count);
  if (shifts_negative(coding)) return least.clamp_max(0);
  if (!has_sign(coding) || !centred) return at::zeros_like(least);
  const Tensor half = most_of(count).add(1).div(2, "floor");
  return half.mul(least.ge(0));
}

// The number of binary digits of each number ≥ 0.
Tensor digits_of(const Tensor& number) {
  Tensor digits = at::zeros_like(number), rest = number.clone();
  while (rest.gt(0).any().item<bool>()) {
    digits = digits.add(rest.gt(0));
    rest = rest.div(2, "floor");
  }
  return digits;
}

Tensor steps_of_shifted(const Tensor& count, Coding coding) {
  const Tensor largest = most_of(count.abs());
  if (of_units(coding)) return largest;
  const Tensor digits = digits_of(largest);
  return coding == Coding::kTwosComplement ? digits.add(1).clamp_min(2) : digits.clamp_min(1);
}

}  // namespace

std::string_view name_of(Coding coding) { return kCodingNames[static_cast<size_t>(coding)]; }

SpikeTrain encode(const Tensor& given, Coding coding, bool centred) {
  const at::NoGradGuard no_gradient;
  const Tensor whole = whole_counts(given);
  SpikeTrain train{.spike_stc = {}, .weights = {}, .zero_t = zero_of(whole, coding, centred)};
  const Tensor count = whole.sub(train.zero_t.unsqueeze(1));
  const Tensor steps_t = steps_of_shifted(count, coding);
  const int64_t steps = steps_t.numel() == 0 ? 0 : steps_t.amax().item<int64_t>();
  const Tensor size = count.abs(), sign = count.sign();
  // The digits of a negative number in two's complement are those of 2^steps + count.
  const Tensor digits =
      coding == Coding::kTwosComplement ? count.add(count.lt(0).mul(int64_t{1} << steps)) : size;
  std::vector<Tensor> spikes;
  for (int64_t s = 0; s < steps; ++s) {
    if (of_units(coding)) {
      spikes.push_back(size.gt(s).mul(sign).to(at::kChar));
      train.weights.push_back(1);
      continue;
    }
    const int64_t weight = int64_t{1} << (steps - 1 - s);
    const Tensor digit = digits.div(weight, "floor").remainder(2);
    spikes.push_back((has_sign(coding) ? digit.mul(sign) : digit).to(at::kChar));
    train.weights.push_back(coding == Coding::kTwosComplement && s == 0 ? -weight : weight);
  }
  train.spike_stc =
      spikes.empty() ? at::zeros({0, count.size(0), count.size(1)}, at::kChar) : at::stack(spikes);
  return train;
}

Tensor decode(const SpikeTrain& train) {
  const at::NoGradGuard no_gradient;
  Tensor count = train.zero_t.unsqueeze(1).expand({train.spike_stc.size(1), train.spike_stc.size(2)}).clone();
  for (size_t s = 0; s < train.weights.size(); ++s)
    count.add_(train.spike_stc[static_cast<int64_t>(s)].to(at::kLong), train.weights[s]);
  return count;
}

Tensor steps_of(const Tensor& given, Coding coding) {
  const at::NoGradGuard no_gradient;
  const Tensor count = whole_counts(given);
  return steps_of_shifted(count.sub(zero_of(count, coding, false).unsqueeze(1)), coding);
}

Tensor spikes_of(const Tensor& given, Coding coding) {
  const at::NoGradGuard no_gradient;
  const Tensor whole = whole_counts(given);
  const Tensor count = whole.sub(zero_of(whole, coding, false).unsqueeze(1));
  if (of_units(coding)) return count.abs();
  Tensor spikes = at::zeros_like(count), rest = count.abs();
  if (coding == Coding::kTwosComplement) {
    // A token's digits are as many as its own steps; those of a negative number are those of 2^steps + count.
    const Tensor wide =
        at::ones_like(steps_of_shifted(count, coding)).bitwise_left_shift(steps_of_shifted(count, coding));
    rest = count.add(count.lt(0).mul(wide.unsqueeze(1)));
  }
  while (rest.gt(0).any().item<bool>()) {
    spikes = spikes.add(rest.remainder(2));
    rest = rest.div(2, "floor");
  }
  return spikes;
}

}  // namespace longhaul::kernels
