#!/bin/sh
# fusion-bench: each of its workloads once, small, by bytecode and generic kernels: the right values, the same bits unfused. A workload
# that is new is in its list, and so here.
. "$(dirname "$0")/../claims.sh"
FUSIOND_FUSION_INTERPRETER=always
export FUSIOND_FUSION_INTERPRETER
bench=$build/fusion-bench

# A daemon that finds the kernels of other tests; its arguments are the benchmark's, the sixth the folder of its cache.
mkdir -m 700 "$root/bin"
cat >"$root/bin/fusiond" <<END
#!/bin/sh
mkdir -m 700 "\$6"
[ -z "\${FUSION_DRIVER_CACHE:-}" ] || ln -s "\$FUSION_DRIVER_CACHE" "\$6/driver"
exec "$(cd "$build" && pwd)/fusiond" "\$@"
END
chmod +x "$root/bin/fusiond"

# What is measured alone, or is no workload, is not in this list; the cold start is what no test is to wait for, remote wants another machine.
"$bench" --list | awk '{ print $1 }' | sed -n '/^\(remote\|coldstart\|sweep\|patterns\|NAME_SIZE,\|watched\|age\|name:\)/d
	s/BxSxD$/2x64x32/; s/^\(conv_.*\)_RxC$/\1_16x12/; s/^batched_RxC$/batched_40x16/; s/RxC$/64x256/
	s/^\(matmul\|linear_res_relu\|matmul_bias_relu\|gelu_linear\|linear_gelu\|layernorm_linear\)_N$/\1_64/
	s/^\(queue\|queue_chain\)_N$/\1_1K/; s/^plan_N$/plan_1000/; s/_N$/_4K/; p' >"$root/workloads"
# shellcheck disable=SC2046
claim every_workload_runs 0 "" "$bench" --fusiond "$root/bin/fusiond" --json --repeat 1 --budget 0.01 --clients 2 --seconds 0.1 $(cat "$root/workloads")
cp "$root/out" "$root/rows"
claim each_has_a_row "$(wc -l <"$root/workloads")" "" sh -c 'exit $(wc -l <"$1")' rows "$root/rows"
claim fused_and_unfused_are_the_same_bits 1 "" grep '"same_bits":false' "$root/rows"
claim results_of_16_bits_are_held_against_roundings_to_16_bits 0 "" "$bench" --fusiond "$root/bin/fusiond" --repeat 1 --budget 0.01 \
	layernorm_64x256_bf16 layernorm0_64x256_f16 layernorm_linear_64_bf16 gelu_linear_64_bf16
claim products_of_any_shape_are_swept 0 "" "$bench" --fusiond "$root/bin/fusiond" --repeat 1 --budget 0.01 sweep linear_res_relu_33x48x40
claim_json patterns_are_measured_fused_and_not 'len(j) == 3 and all(one["same_bits"] and one["kernels_of_pattern"] == 1 for one in j) and
	[one["case"] for one in j] == ["mul_relu_16", "layer_norm_linear_16", "scalar_activation_16"]' sh -c '"$@" | awk "BEGIN { print \"[\" } { print (NR > 1 ? \",\" : \"\") \$0 } END { print \"]\" }"' rows \
	"$bench" --fusiond "$root/bin/fusiond" --json --budget 0.02 patterns mul_relu_16 layer_norm_linear_16 scalar_activation_16
claim a_table_of_patterns_says_when_and_where 0 "^[0-9]* [A-Z][a-z]* 20[0-9][0-9], fusiond .* processors, load" "$bench" --fusiond "$root/bin/fusiond" --budget 0.02 patterns add_relu_16
claim a_pattern_that_nobody_knows_is_told_once 1 "there is no pattern 'nope'" "$bench" --fusiond "$root/bin/fusiond" --budget 0.02 patterns add_relu_16 nope nope_16
cp "$root/out" "$root/told"
claim and_nothing_is_measured_before 0 "" sh -c '[ "$(wc -l <"$1")" = 1 ]' rows "$root/told"
claim a_case_that_fails_is_counted_in_the_last_line 1 "^0 of 0 are slower fused; 1 failed\.$" "$bench" --fusiond "$root/bin/fusiond" --budget 0.02 patterns add_relu_99999
claim a_table_counts_what_it_measured 0 "^[01] of 1 are slower fused\.$" "$bench" --fusiond "$root/bin/fusiond" --budget 0.02 patterns add_relu_16

finish_claims
