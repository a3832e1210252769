# What clang 14 made of apart.c for x86-64, so that no clang is needed to test: clang -g -gdwarf-4 -O2 -S -fno-addrsig
	.text
	.file	"apart.c"
	.file	1 "apart.c"
	.globl	forward
	.p2align	4, 0x90
	.type	forward,@function
forward:
.Lfunc_begin0:
	.loc	1 10 0
	.cfi_startproc
	#DEBUG_VALUE: forward:token <- $edi
	#DEBUG_VALUE: forward:n <- $esi
	.loc	1 12 23 prologue_end
	addl	%esi, state.1(%rip)
.Ltmp0:
	#DEBUG_VALUE: i <- 1
	#DEBUG_VALUE: i <- 1
	addl	%esi, state.2(%rip)
.Ltmp1:
	#DEBUG_VALUE: i <- 2
	#DEBUG_VALUE: i <- 2
	addl	%esi, state.3(%rip)
.Ltmp2:
	#DEBUG_VALUE: i <- 3
	#DEBUG_VALUE: i <- 0
	#DEBUG_VALUE: i <- 0
	.loc	1 13 15
	addl	state.0(%rip), %esi
.Ltmp3:
	#DEBUG_VALUE: forward:n <- [DW_OP_LLVM_entry_value 1] $esi
	movl	%esi, state.0(%rip)
	.loc	1 14 19
	addl	%edi, %esi
	.loc	1 14 32 is_stmt 0
	movslq	%esi, %rax
	imulq	$1374389535, %rax, %rcx
	movq	%rcx, %rdx
	shrq	$63, %rdx
	sarq	$36, %rcx
	addl	%edx, %ecx
	imull	$50, %ecx, %ecx
	subl	%ecx, %eax
	.loc	1 14 5
	retq
.Ltmp4:
.Lfunc_end0:
	.size	forward, .Lfunc_end0-forward
	.cfi_endproc
	.globl	main
	.p2align	4, 0x90
	.type	main,@function
main:
.Lfunc_begin1:
	.loc	1 18 0 is_stmt 1
	.cfi_startproc
	pushq	%rax
	.cfi_def_cfa_offset 16
.Ltmp5:
	.loc	1 19 17 prologue_end
	movl	$11, %edi
	movl	$3, %esi
	callq	forward
.Ltmp6:
	#DEBUG_VALUE: main:token <- $eax
	#DEBUG_VALUE: main:token <- $eax
	#DEBUG_VALUE: i <- 0
	#DEBUG_VALUE: i <- 0
	.loc	1 21 17
	movl	%eax, %edi
	movl	$1, %esi
	callq	forward
.Ltmp7:
	#DEBUG_VALUE: main:token <- $eax
	#DEBUG_VALUE: main:token <- $eax
	#DEBUG_VALUE: i <- 1
	#DEBUG_VALUE: i <- 1
	movl	%eax, %edi
	movl	$1, %esi
	popq	%rax
.Ltmp8:
	#DEBUG_VALUE: main:token <- $edi
	.cfi_def_cfa_offset 8
	jmp	forward
.Ltmp9:
.Lfunc_end1:
	.size	main, .Lfunc_end1-main
	.cfi_endproc
	.type	state.0,@object
	.local	state.0
	.comm	state.0,4,4
	.type	state.1,@object
	.local	state.1
	.comm	state.1,4,4
	.type	state.2,@object
	.local	state.2
	.comm	state.2,4,4
	.type	state.3,@object
	.local	state.3
	.comm	state.3,4,4
	.section	.debug_loc,"",@progbits
.Ldebug_loc0:
	.quad	.Lfunc_begin0-.Lfunc_begin0
	.quad	.Ltmp3-.Lfunc_begin0
	.short	1
	.byte	84
	.quad	.Ltmp3-.Lfunc_begin0
	.quad	.Lfunc_end0-.Lfunc_begin0
	.short	4
	.byte	243
	.byte	1
	.byte	84
	.byte	159
	.quad	0
	.quad	0
.Ldebug_loc1:
	.quad	.Ltmp0-.Lfunc_begin0
	.quad	.Ltmp1-.Lfunc_begin0
	.short	3
	.byte	17
	.byte	1
	.byte	159
	.quad	.Ltmp1-.Lfunc_begin0
	.quad	.Ltmp2-.Lfunc_begin0
	.short	3
	.byte	17
	.byte	2
	.byte	159
	.quad	.Ltmp2-.Lfunc_begin0
	.quad	.Lfunc_end0-.Lfunc_begin0
	.short	3
	.byte	17
	.byte	0
	.byte	159
	.quad	0
	.quad	0
.Ldebug_loc2:
	.quad	.Ltmp6-.Lfunc_begin0
	.quad	.Ltmp8-.Lfunc_begin0
	.short	1
	.byte	80
	.quad	.Ltmp8-.Lfunc_begin0
	.quad	.Ltmp9-.Lfunc_begin0
	.short	1
	.byte	85
	.quad	0
	.quad	0
.Ldebug_loc3:
	.quad	.Ltmp6-.Lfunc_begin0
	.quad	.Ltmp7-.Lfunc_begin0
	.short	3
	.byte	17
	.byte	0
	.byte	159
	.quad	.Ltmp7-.Lfunc_begin0
	.quad	.Lfunc_end1-.Lfunc_begin0
	.short	3
	.byte	17
	.byte	1
	.byte	159
	.quad	0
	.quad	0
	.section	.debug_abbrev,"",@progbits
	.byte	1
	.byte	17
	.byte	1
	.byte	37
	.byte	14
	.byte	19
	.byte	5
	.byte	3
	.byte	14
	.byte	16
	.byte	23
	.byte	27
	.byte	14
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	0
	.byte	0
	.byte	2
	.byte	52
	.byte	0
	.byte	3
	.byte	14
	.byte	73
	.byte	19
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	2
	.byte	24
	.byte	0
	.byte	0
	.byte	3
	.byte	19
	.byte	1
	.byte	11
	.byte	11
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	0
	.byte	0
	.byte	4
	.byte	13
	.byte	0
	.byte	3
	.byte	14
	.byte	73
	.byte	19
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	56
	.byte	11
	.byte	0
	.byte	0
	.byte	5
	.byte	36
	.byte	0
	.byte	3
	.byte	14
	.byte	62
	.byte	11
	.byte	11
	.byte	11
	.byte	0
	.byte	0
	.byte	6
	.byte	1
	.byte	1
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	7
	.byte	33
	.byte	0
	.byte	73
	.byte	19
	.byte	55
	.byte	11
	.byte	0
	.byte	0
	.byte	8
	.byte	36
	.byte	0
	.byte	3
	.byte	14
	.byte	11
	.byte	11
	.byte	62
	.byte	11
	.byte	0
	.byte	0
	.byte	9
	.byte	46
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	64
	.byte	24
	.ascii	"\227B"
	.byte	25
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	39
	.byte	25
	.byte	73
	.byte	19
	.byte	63
	.byte	25
	.byte	0
	.byte	0
	.byte	10
	.byte	5
	.byte	0
	.byte	2
	.byte	24
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	11
	.byte	5
	.byte	0
	.byte	2
	.byte	23
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	12
	.byte	11
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	0
	.byte	0
	.byte	13
	.byte	52
	.byte	0
	.byte	2
	.byte	23
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	14
	.ascii	"\211\202\001"
	.byte	1
	.byte	49
	.byte	19
	.byte	17
	.byte	1
	.byte	0
	.byte	0
	.byte	15
	.ascii	"\212\202\001"
	.byte	0
	.byte	2
	.byte	24
	.ascii	"\221B"
	.byte	24
	.byte	0
	.byte	0
	.byte	16
	.ascii	"\211\202\001"
	.byte	1
	.byte	49
	.byte	19
	.ascii	"\225B"
	.byte	25
	.byte	17
	.byte	1
	.byte	0
	.byte	0
	.byte	0
	.section	.debug_info,"",@progbits
.Lcu_begin0:
	.long	.Ldebug_info_end0-.Ldebug_info_start0
.Ldebug_info_start0:
	.short	4
	.long	.debug_abbrev
	.byte	8
	.byte	1
	.long	.Linfo_string0
	.short	12
	.long	.Linfo_string1
	.long	.Lline_table_start0
	.long	.Linfo_string2
	.quad	.Lfunc_begin0
	.long	.Lfunc_end1-.Lfunc_begin0
	.byte	2
	.long	.Linfo_string3
	.long	98
	.byte	1
	.byte	7
	.byte	44
	.byte	3
	.quad	state.0
	.byte	147
	.byte	4
	.byte	3
	.quad	state.1
	.byte	147
	.byte	4
	.byte	3
	.quad	state.2
	.byte	147
	.byte	4
	.byte	3
	.quad	state.3
	.byte	147
	.byte	4
	.byte	3
	.byte	20
	.byte	1
	.byte	3
	.byte	4
	.long	.Linfo_string4
	.long	139
	.byte	1
	.byte	4
	.byte	0
	.byte	4
	.long	.Linfo_string6
	.long	146
	.byte	1
	.byte	5
	.byte	4
	.byte	4
	.long	.Linfo_string8
	.long	139
	.byte	1
	.byte	6
	.byte	16
	.byte	0
	.byte	5
	.long	.Linfo_string5
	.byte	5
	.byte	4
	.byte	6
	.long	139
	.byte	7
	.long	158
	.byte	3
	.byte	0
	.byte	8
	.long	.Linfo_string7
	.byte	8
	.byte	7
	.byte	9
	.quad	.Lfunc_begin0
	.long	.Lfunc_end0-.Lfunc_begin0
	.byte	1
	.byte	87
	.long	.Linfo_string9
	.byte	1
	.byte	9
	.long	139
	.byte	10
	.byte	1
	.byte	85
	.long	.Linfo_string11
	.byte	1
	.byte	9
	.long	139
	.byte	11
	.long	.Ldebug_loc0
	.long	.Linfo_string12
	.byte	1
	.byte	9
	.long	139
	.byte	12
	.quad	.Lfunc_begin0
	.long	.Ltmp2-.Lfunc_begin0
	.byte	13
	.long	.Ldebug_loc1
	.long	.Linfo_string13
	.byte	1
	.byte	11
	.long	139
	.byte	0
	.byte	0
	.byte	9
	.quad	.Lfunc_begin1
	.long	.Lfunc_end1-.Lfunc_begin1
	.byte	1
	.byte	87
	.long	.Linfo_string10
	.byte	1
	.byte	17
	.long	139
	.byte	13
	.long	.Ldebug_loc2
	.long	.Linfo_string11
	.byte	1
	.byte	19
	.long	139
	.byte	12
	.quad	.Ltmp6
	.long	.Ltmp9-.Ltmp6
	.byte	13
	.long	.Ldebug_loc3
	.long	.Linfo_string13
	.byte	1
	.byte	20
	.long	139
	.byte	0
	.byte	14
	.long	165
	.quad	.Ltmp6
	.byte	15
	.byte	1
	.byte	84
	.byte	1
	.byte	51
	.byte	15
	.byte	1
	.byte	85
	.byte	1
	.byte	59
	.byte	0
	.byte	14
	.long	165
	.quad	.Ltmp7
	.byte	15
	.byte	1
	.byte	84
	.byte	1
	.byte	49
	.byte	0
	.byte	16
	.long	165
	.quad	.Ltmp9
	.byte	15
	.byte	1
	.byte	84
	.byte	1
	.byte	49
	.byte	0
	.byte	0
	.byte	0
.Ldebug_info_end0:
	.section	.debug_str,"MS",@progbits,1
.Linfo_string0:
	.byte	0
.Linfo_string1:
	.asciz	"apart.c"
.Linfo_string2:
	.asciz	"."
.Linfo_string3:
	.asciz	"state"
.Linfo_string4:
	.asciz	"len"
.Linfo_string5:
	.asciz	"int"
.Linfo_string6:
	.asciz	"rows"
.Linfo_string7:
	.asciz	"__ARRAY_SIZE_TYPE__"
.Linfo_string8:
	.asciz	"n_layers"
.Linfo_string9:
	.asciz	"forward"
.Linfo_string10:
	.asciz	"main"
.Linfo_string11:
	.asciz	"token"
.Linfo_string12:
	.asciz	"n"
.Linfo_string13:
	.asciz	"i"
	.section	".note.GNU-stack","",@progbits
	.section	.debug_line,"",@progbits
.Lline_table_start0:
