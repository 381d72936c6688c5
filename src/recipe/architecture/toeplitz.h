// The Toeplitz position encoding (TPE) of cosFormer2 and LightNet (arXiv 2406.16690, 2405.21022;
// docs/sources/linear-attention.md §8.3), applied once, to the embeddings:
//
//   y_t,c = Σ_{s ≤ t} κ_c(t − s) x_s,c        κ_c(τ) = Σ_j B_cj λ_j^τ
//   λ_j = exp(−e^{r_j}), j < model.toeplitz
//
// Where documents are grids (model.lightnet.grid) it is MD-TPE: the sum over the grid's axes of such an
// encoding along each axis, with coefficients of its own, in which a token is preceded by the earlier tokens
// of its line. The coefficients of all axes are in one tensor: column j · axes + a is exponential j of axis
// a. A document's first token has no place on the grid and stays as it is.
//
// This file describes it without tensors, as the entries of mixers do. B and r are coefficients: kept in the
// precision of sums, without weight decay. Their initial values are not published; here B is 1 / (e · axes)
// everywhere, so that a token has weight 1 for itself, and the rates e^r range from 16 down to 1/8. Plain
// data.
#pragma once

#include <string_view>
#include <vector>

#include "recipe/mixers.h"

namespace longhaul::recipe {

// "toeplitz.coefficient" [hidden, e · axes], "toeplitz.rate" [e · axes]; none where the encoding is off
std::vector<MixerTensor> toeplitz_tensors(const ModelConfig& model);
bool of_toeplitz(std::string_view tensor);  // by the tensor's name
// While decoding: [e, hidden], in the wide type; none where the encoding is off.
std::vector<MixerStateTensor> toeplitz_state(const ModelConfig& model);
RecurrenceSizes toeplitz_sizes(const ModelConfig& model);  // its sizes as a recurrence

}  // namespace longhaul::recipe
