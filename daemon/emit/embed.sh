#!/bin/sh
# Writes an assembler file that puts every kernels/*.cl into the program, so that nobody edits a list.
#
# usage: embed.sh KERNELS_DIRECTORY >embed.S
#
# The table section_table holds one row (name, begin, end) a file, sorted by name, and ends with a null name;
# daemon/emit/section.c reads it.
set -eu

cd "$1"
directory=$(pwd)

# SECTIONS of section.c
set -- *.cl
if [ $# -gt 64 ]; then
	echo "$0: more than 64 sections" >&2
	exit 1
fi
# SECTION_WORDS
if [ "$(for file; do sed '/\*\//q' "$file"; done | wc -w)" -gt 4096 ]; then
	echo "$0: the opening comments hold more than 4096 words" >&2
	exit 1
fi

echo '	.section .rodata'
for file; do
	name=${file%.cl}
	printf 'name_%s:\n\t.asciz "%s"\n' "$name" "$name"
	printf 'begin_%s:\n\t.incbin "%s/%s"\nend_%s:\n' "$name" "$directory" "$file" "$name"
done
echo '	.section .data.rel.ro, "aw"'
echo '	.balign 8'
echo '	.globl section_table'
echo '	.hidden section_table'
echo '	.type section_table, %object'
echo 'section_table:'
for file; do
	name=${file%.cl}
	printf '\t.quad name_%s, begin_%s, end_%s\n' "$name" "$name" "$name"
done
echo '	.quad 0, 0, 0'
echo '	.section .note.GNU-stack, "", %progbits'
