#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "kernels/gemm/sets.h"
#include "kernels/vector/bf16.h"

#include "kernels/gemm/packing.h"
#include "kernels/gemm/portable_set.h"
#include "kernels/gemm/vector_kernels.h"

namespace longhaul::kernels {

const BlockKernels kPortableBlockKernels = {"portable",
                                            2,
                                            VectorSet::kBaseline,
                                            pack_bf16<Portable>,
                                            pack_fp32<Portable>,
                                            multiply<Portable, WidenedStep>,
                                            multiply<Portable, Fp32Step>,
                                            transpose<Portable, uint16_t>,
                                            transpose<Portable, float>,
                                            round_bf16<Portable>,
                                            round_bf16_with_bias<Portable>,
                                            nothing,
                                            nothing};

}  // namespace longhaul::kernels
