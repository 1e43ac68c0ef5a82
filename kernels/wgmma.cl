/*
 * section:  wgmma
 * requires: types matrix_multiply
 * provides: wgmma_place
 *
 * Products of 16-bit floats by instructions of four blocks of 32 work-items together, which read both factors from local memory
 * and go on while the items do (wgmma in PTX, of sm_90a); only devices on which a trial found their results those of
 * kernels/matrix.cl, bit by bit, get programs with this section.
 *
 * The compiler does not know them: it takes them for comments, and what it has made of the text is built once more with the
 * comments' marks gone (device/hidden.c).
 */

/* Where an element lies in a piece of `depth` by any number of elements that lie across K: lines of 64 elements, as matrix_across(). */
OVL int wgmma_across(int depth, int x, int k) {
	return x / 64 * (64 * depth) + matrix_across(64, x % 64, k);
}

/* What an instruction takes for a place: the address, `apart` bytes from 64 elements to the next 64 where they lie across K, 1024 bytes of 8 lines, and
 * that pieces of 16 bytes are exchanged within 128. Addresses count 16 bytes, so that they can be added to. */
OVL ulong wgmma_place(local const ushort *at, uint apart) {
	return (uint)(ulong)at / 16 | (ulong)(apart / 16) << 16 | (ulong)(1024 / 16) << 32 | 1ul << 62;
}

/* Sums in registers are ready; what was asked for since is a unit; no more than so many units are under way. */
#define WGMMA_BEGIN() __asm__ volatile("//HIDDEN wgmma.fence.sync.aligned;" ::: "memory")
#define WGMMA_END() __asm__ volatile("//HIDDEN wgmma.commit_group.sync.aligned;" ::: "memory")
#define WGMMA_WAIT(units) __asm__ volatile("//HIDDEN wgmma.wait_group.sync.aligned " #units ";" ::: "memory")

/* A unit shall have two groups of this kernel at the same time. */
#define WGMMA_TWO_GROUPS() __asm__ volatile("//TWO_GROUPS" ::: "memory")

/* What this item wrote to local memory is there for such instructions. */
#define WGMMA_WRITTEN() __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory")
