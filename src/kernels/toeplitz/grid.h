// Positions for data with several axes, images and video (LightNet, arXiv 2405.21022;
// docs/sources/linear-attention.md §8.3). Tokens of a grid are in memory order: the last axis is innermost.
// Grids follow one another, each with sizes of its own.
//
//   toeplitz_of_grids   MD-TPE: y = Σ_a (a Toeplitz encoding, with parameters of its own, along axis a), op.h
//   turns_of_grids      MD-LRPE: the angles of a token at (s_1, …, s_m) are s_1 θ, then s_2 θ, …, with θ_j
//                       = base^(−2j / head_dim) for every axis, truncated to the number of angles
//                       (kernels/features)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/feature_maps/op.h"
#include "tensor/tensor.h"

namespace longhaul::kernels {

using GridSizes = std::vector<int64_t>;  // tokens along each axis, outermost first

struct ToeplitzAxis {
  Tensor coefficient_de, log_decay_e;
};

// x_td [Σ tokens of the grids, d]; all grids have as many axes as there are parameters. Differentiable.
Tensor toeplitz_of_grids(const Tensor& x_td, std::span<const GridSizes> grids,
                         std::span<const ToeplitzAxis> axes);

// `angles`: a head's channels for a cosine turn, half of them for a rotary one. Behind `plain` leading tokens
// of each grid that stand nowhere (classes, conditions; angle 0). Made in fp64.
TurnTable turns_of_grids(std::span<const GridSizes> grids, int64_t angles, int64_t head_dim, double base,
                         ScalarType type, at::Device device, int64_t plain = 0);

}  // namespace longhaul::kernels
