/*
 * Heat spreads in a plate whose left edge is kept hot: C++, by fusion.hpp.
 *
 *     g++ -std=c++17 heat.cpp $(pkg-config --cflags --libs fusion) -o heat && ./heat
 *
 * Each step is an expression of matrices; the daemon runs it as few kernels, and nothing of it is copied.
 */
#include <fusion.hpp>

#include <cstdio>

namespace {

constexpr std::int64_t side = 64;
constexpr int steps = 200;

/* Each element becomes the mean of both neighbours; at the ends, of one and itself. */
fusion::array neighbours(const fusion::context &c) {
	std::vector<float> m(side * side);

	for (std::int64_t i = 0; i < side; i++) {
		m[static_cast<std::size_t>(i * side + (i ? i - 1 : i))] += 0.5f;
		m[static_cast<std::size_t>(i * side + (i + 1 < side ? i + 1 : i))] += 0.5f;
	}
	return fusion::from(c, { side, side }, m);
}

fusion::array left_edge(const fusion::context &c) {
	return broadcast(fusion::arange(c, FUSION_F32, side) < 1, { side, side });
}

} // namespace

int main() {
	try {
		fusion::context c;
		fusion::array mean = neighbours(c), edge = left_edge(c), hot = fusion::full(c, FUSION_F32, { side, side }, 100);
		fusion::array plate = fusion::full(c, FUSION_F32, { side, side }, 0);

		for (int i = 0; i < steps; i++)
			plate = where(edge, hot, (matmul(mean, plate) + matmul(plate, transpose(mean))) / 2);
		std::vector<float> row = fusion::read<float>(fusion::mean(plate, { 0 }));
		for (std::size_t x = 0; x < row.size(); x += 16)
			std::printf("column %2zu: %.1f\n", x, static_cast<double>(row[x]));
		return 0;
	} catch (const fusion::error &e) {
		std::fprintf(stderr, "heat: %s\n", e.what());
		return 1;
	}
}
