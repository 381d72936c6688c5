// Checks and timings of what a head does between its products: losses, terms and gradients of rows of
// logits, against loops in fp64.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu_check/session.h"
#include "kernels/linear_cross_entropy/cuda.h"

namespace longhaul::gpu_check {
namespace {

using kernels::cuda::LogitRows;

size_t at(int64_t i) { return static_cast<size_t>(i); }

constexpr const char* kOp = "linear_cross_entropy";

// Random logits, whose padding is NaN, and labels of which some say that there is none.
struct Rows {
  Rows(Session& session, int64_t rows, int64_t vocabulary)
      : stride((vocabulary + 7) / 8 * 8),
        logits(random_fp32(session, rows * stride, 3)),
        labels(std::vector<int64_t>(at(rows))),
        in{.rows = rows, .vocabulary = vocabulary, .stride = stride} {
    for (int64_t t = 0; t < rows; ++t) {
      labels.host[at(t)] = t % 5 == 3 ? -1 - t
                           : t == 0
                               ? vocabulary - 1
                               : static_cast<int64_t>(session.random() % static_cast<uint64_t>(vocabulary));
      for (int64_t c = vocabulary; c < stride; ++c)
        logits.host[at(t * stride + c)] = std::numeric_limits<float>::quiet_NaN();
    }
    logits.upload();
    labels.upload();
    in.logits = logits.device();
    in.labels = labels.device();
  }
  double z(int64_t t, int64_t c, double scale) const { return scale * logits.host[at(t * stride + c)]; }
  double logsumexp(int64_t t, double scale) const {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < in.vocabulary; ++c) largest = std::max(largest, z(t, c, scale));
    for (int64_t c = 0; c < in.vocabulary; ++c) sum += std::exp(z(t, c, scale) - largest);
    return largest + std::log(sum);
  }
  std::string name() const { return std::to_string(in.rows) + " × " + std::to_string(in.vocabulary); }

  int64_t stride;
  Buffer<float> logits;
  Buffer<int64_t> labels;
  LogitRows in;
};

void check_losses_of(Session& session, int64_t count, int64_t vocabulary, double z_loss) {
  const Rows rows(session, count, vocabulary);
  const double scale = 0.25;
  std::vector<double> want_loss(at(count), 0), want_d(at(count * rows.stride), 0);
  for (int64_t t = 0; t < count; ++t) {
    const int64_t label = rows.labels.host[at(t)];
    if (label < 0) continue;
    const double lse = rows.logsumexp(t, 1);
    want_loss[at(t)] = lse - rows.z(t, label, 1) + z_loss * lse * lse;
    for (int64_t c = 0; c < vocabulary; ++c)
      want_d[at(t * rows.stride + c)] =
          scale * (std::exp(rows.z(t, c, 1) - lse) * (1 + 2 * z_loss * lse) - (c == label ? 1 : 0));
  }
  auto loss = Buffer<float>::output(count);
  auto d_logits = Buffer<Bf16>::output(count * rows.stride);
  const auto run = [&](Bf16* gradients) {
    loss.poison();
    kernels::cuda::loss_of_rows(rows.in, static_cast<float>(z_loss), static_cast<float>(scale), loss.device(),
                                gradients, nullptr);
    kernels::cuda::runtime::synchronize();
  };
  run(d_logits.device());
  session.compare(kOp, rows.name(), "loss", loss, want_loss, kFp32);
  session.compare(kOp, rows.name(), "gradients of logits, zeros in the padding", d_logits, want_d, kBf16);
  run(nullptr);
  session.compare(kOp, rows.name(), "loss without gradients", loss, want_loss, kFp32);
}

void check_terms_of(Session& session, int64_t count, int64_t vocabulary, bool with_entropy) {
  const Rows rows(session, count, vocabulary);
  const double scale = 0.6;
  const auto given = [&] { return Buffer<float>(random_fp32(session, count)); };
  const Buffer<float> d_lse = given(), d_label = given(), d_entropy = given();
  std::vector<double> want_lse(at(count)), want_label(at(count), 0), want_entropy(at(count), 0),
      want_d(at(count * rows.stride), 0);
  for (int64_t t = 0; t < count; ++t) {
    const int64_t label = rows.labels.host[at(t)];
    const double lse = want_lse[at(t)] = rows.logsumexp(t, scale);
    if (label >= 0) want_label[at(t)] = rows.z(t, label, scale);
    const auto log_p = [&](int64_t c) { return rows.z(t, c, scale) - lse; };
    for (int64_t c = 0; c < vocabulary; ++c) want_entropy[at(t)] -= std::exp(log_p(c)) * log_p(c);
    for (int64_t c = 0; c < vocabulary; ++c) {
      // dH/dz_c = −p_c (log p_c + H)
      double d = std::exp(log_p(c)) * d_lse.host[at(t)];
      if (with_entropy) d -= d_entropy.host[at(t)] * std::exp(log_p(c)) * (log_p(c) + want_entropy[at(t)]);
      if (c == label) d += d_label.host[at(t)];
      want_d[at(t * rows.stride + c)] = scale * d;
    }
  }
  auto lse = Buffer<float>::output(count), label = Buffer<float>::output(count),
       entropy = Buffer<float>::output(count);
  kernels::cuda::terms_of_rows(rows.in, static_cast<float>(scale),
                               {lse.device(), label.device(), with_entropy ? entropy.device() : nullptr},
                               nullptr);
  kernels::cuda::runtime::synchronize();
  session.compare(kOp, rows.name(), "logsumexp", lse, want_lse, kFp32);
  session.compare(kOp, rows.name(), "logit of the label", label, want_label, kFp32);
  if (with_entropy) session.compare(kOp, rows.name(), "entropy", entropy, want_entropy, kFp32);
  auto d_logits = Buffer<Bf16>::output(count * rows.stride);
  kernels::cuda::term_gradients_of_rows(rows.in, static_cast<float>(scale),
                                        {.logsumexp = lse.device(),
                                         .entropy = with_entropy ? entropy.device() : nullptr,
                                         .d_logsumexp = d_lse.device(),
                                         .d_label = d_label.device(),
                                         .d_entropy = with_entropy ? d_entropy.device() : nullptr},
                                        d_logits.device(), nullptr);
  kernels::cuda::runtime::synchronize();
  session.compare(kOp, rows.name(), "gradients from terms", d_logits, want_d, kBf16);
}

// One NaN in a row, alone in its thread, is seen in the row's loss and nowhere else.
void check_nan(Session& session) {
  Rows rows(session, 3, 4 * 3 + 1);
  rows.logits.host[at(rows.stride + 4 * 3)] = std::numeric_limits<float>::quiet_NaN();
  rows.labels.host[1] = 0;
  rows.logits.upload();
  rows.labels.upload();
  auto loss = Buffer<float>::output(3);
  kernels::cuda::loss_of_rows(rows.in, 0, 1, loss.device(), nullptr, nullptr);
  kernels::cuda::runtime::synchronize();
  loss.download();
  session.expect(kOp, rows.name(), "a NaN among the logits makes its row's loss NaN",
                 std::isnan(loss.host[1]) && std::isfinite(loss.host[0]) && std::isfinite(loss.host[2]));
}

}  // namespace

void check_losses(Session& session) {
  check_losses_of(session, 37, 203, 0);
  check_losses_of(session, 6, 2053, 0.05);  // more than the columns of one turn
  check_losses_of(session, 5, 3, 0.01);
  check_terms_of(session, 21, 75, true);
  check_terms_of(session, 4, 2500, true);
  check_terms_of(session, 9, 8, false);
  check_nan(session);
}

void time_losses(Session& session) {
  const int64_t count = 4096, vocabulary = 50257;
  const Rows rows(session, count, vocabulary);
  auto loss = Buffer<float>::output(count);
  auto d_logits = Buffer<Bf16>::output(count * rows.stride);
  const double logits = static_cast<double>(count) * static_cast<double>(vocabulary);
  // A row does not stay in cache: its logits are read twice.
  session.time("losses and gradients of logits", rows.name(), logits * (4 + 4 + 2), 0, [&] {
    kernels::cuda::loss_of_rows(rows.in, 0, 1, loss.device(), d_logits.device(), nullptr);
  });
  session.time("losses", rows.name(), logits * 4, 0,
               [&] { kernels::cuda::loss_of_rows(rows.in, 0, 1, loss.device(), nullptr, nullptr); });
}

}  // namespace longhaul::gpu_check
