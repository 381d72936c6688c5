// The Toeplitz position encoding (TPE) of cosFormer2 and LightNet (arXiv 2406.16690, 2405.21022; docs/sources/linear-attention.md §8.3), once, on the embeddings:
//
//   y_t,c = Σ_{s ≤ t} κ_c(t − s) x_s,c        κ_c(τ) = Σ_j B_cj λ_j^τ        λ_j = exp(−e^{r_j}), j < model.toeplitz
//
// Where documents are grids (model.lightnet.grid), MD-TPE: the sum over their axes of such an encoding with coefficients of its own along each, in which a
// token is preceded by those before it on its line. All axes' stand in one tensor: column j · axes + a is exponential j of axis a. A document's first
// token, which stands nowhere, stays as it is.
//
// What can be said of it without a tensor, as mixers' entries say it. B and r are coefficients: in the precision of sums, without weight decay. How
// they begin is not published; here B is 1 / (e · axes) everywhere, so that a token counts 1 itself, and rates e^r lie from 16 down to 1/8. Plain data.
#pragma once

#include <string_view>
#include <vector>

#include "recipe/mixers.h"

namespace longhaul::recipe {

// "toeplitz.coefficient" [hidden, e · axes], "toeplitz.rate" [e · axes]; none without it
std::vector<MixerTensor> toeplitz_tensors(const ModelConfig& model);
bool of_toeplitz(std::string_view tensor);                               // by its name
std::vector<MixerStateTensor> toeplitz_state(const ModelConfig& model);  // while decoding: [e, hidden], wide; none without it
RecurrenceSizes toeplitz_sizes(const ModelConfig& model);                // as the recurrence that it is

}  // namespace longhaul::recipe
