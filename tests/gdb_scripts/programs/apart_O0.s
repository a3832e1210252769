# What clang 14 made of apart.c for x86-64, so that no clang is needed to test: clang -g -gdwarf-4 -O0 -S -fno-addrsig
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
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	movl	%edi, -4(%rbp)
	movl	%esi, -8(%rbp)
.Ltmp0:
	.loc	1 11 14 prologue_end
	movl	$0, -12(%rbp)
.LBB0_1:
.Ltmp1:
	.loc	1 11 23 is_stmt 0
	cmpl	$3, -12(%rbp)
.Ltmp2:
	.loc	1 11 5
	jge	.LBB0_4
.Ltmp3:
	.loc	1 12 26 is_stmt 1
	movl	-8(%rbp), %edx
	.loc	1 12 9 is_stmt 0
	movslq	-12(%rbp), %rcx
	.loc	1 12 23
	leaq	state(%rip), %rax
	addl	4(%rax,%rcx,4), %edx
	leaq	state(%rip), %rax
	movl	%edx, 4(%rax,%rcx,4)
	.loc	1 11 36 is_stmt 1
	movl	-12(%rbp), %eax
	addl	$1, %eax
	movl	%eax, -12(%rbp)
	.loc	1 11 5 is_stmt 0
	jmp	.LBB0_1
.Ltmp4:
.LBB0_4:
	.loc	1 13 18 is_stmt 1
	movl	-8(%rbp), %eax
	.loc	1 13 15 is_stmt 0
	addl	state(%rip), %eax
	movl	%eax, state(%rip)
	.loc	1 14 13 is_stmt 1
	movl	-4(%rbp), %eax
	.loc	1 14 19 is_stmt 0
	addl	state(%rip), %eax
	.loc	1 14 32
	movl	$50, %ecx
	cltd
	idivl	%ecx
	movl	%edx, %eax
	.loc	1 14 5
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	retq
.Ltmp5:
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
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$16, %rsp
	movl	$0, -4(%rbp)
.Ltmp6:
	.loc	1 19 17 prologue_end
	movl	$11, %edi
	movl	$3, %esi
	callq	forward
	.loc	1 19 9 is_stmt 0
	movl	%eax, -8(%rbp)
.Ltmp7:
	.loc	1 20 14 is_stmt 1
	movl	$0, -12(%rbp)
.LBB1_1:
.Ltmp8:
	.loc	1 20 23 is_stmt 0
	cmpl	$2, -12(%rbp)
.Ltmp9:
	.loc	1 20 5
	jge	.LBB1_4
.Ltmp10:
	.loc	1 21 25 is_stmt 1
	movl	-8(%rbp), %edi
	.loc	1 21 17 is_stmt 0
	movl	$1, %esi
	callq	forward
	.loc	1 21 15
	movl	%eax, -8(%rbp)
	.loc	1 20 29 is_stmt 1
	movl	-12(%rbp), %eax
	addl	$1, %eax
	movl	%eax, -12(%rbp)
	.loc	1 20 5 is_stmt 0
	jmp	.LBB1_1
.Ltmp11:
.LBB1_4:
	.loc	1 22 12 is_stmt 1
	movl	-8(%rbp), %eax
	.loc	1 22 5 is_stmt 0
	addq	$16, %rsp
	popq	%rbp
	.cfi_def_cfa %rsp, 8
	retq
.Ltmp12:
.Lfunc_end1:
	.size	main, .Lfunc_end1-main
	.cfi_endproc
	.type	state,@object
	.data
	.p2align	2
state:
	.long	0
	.zero	12
	.long	3
	.size	state, 20
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
	.byte	11
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	0
	.byte	0
	.byte	12
	.byte	52
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
	.long	63
	.byte	1
	.byte	7
	.byte	9
	.byte	3
	.quad	state
	.byte	3
	.byte	20
	.byte	1
	.byte	3
	.byte	4
	.long	.Linfo_string4
	.long	104
	.byte	1
	.byte	4
	.byte	0
	.byte	4
	.long	.Linfo_string6
	.long	111
	.byte	1
	.byte	5
	.byte	4
	.byte	4
	.long	.Linfo_string8
	.long	104
	.byte	1
	.byte	6
	.byte	16
	.byte	0
	.byte	5
	.long	.Linfo_string5
	.byte	5
	.byte	4
	.byte	6
	.long	104
	.byte	7
	.long	123
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
	.byte	86
	.long	.Linfo_string9
	.byte	1
	.byte	9
	.long	104
	.byte	10
	.byte	2
	.byte	145
	.byte	124
	.long	.Linfo_string11
	.byte	1
	.byte	9
	.long	104
	.byte	10
	.byte	2
	.byte	145
	.byte	120
	.long	.Linfo_string12
	.byte	1
	.byte	9
	.long	104
	.byte	11
	.quad	.Ltmp0
	.long	.Ltmp4-.Ltmp0
	.byte	12
	.byte	2
	.byte	145
	.byte	116
	.long	.Linfo_string13
	.byte	1
	.byte	11
	.long	104
	.byte	0
	.byte	0
	.byte	9
	.quad	.Lfunc_begin1
	.long	.Lfunc_end1-.Lfunc_begin1
	.byte	1
	.byte	86
	.long	.Linfo_string10
	.byte	1
	.byte	17
	.long	104
	.byte	12
	.byte	2
	.byte	145
	.byte	120
	.long	.Linfo_string11
	.byte	1
	.byte	19
	.long	104
	.byte	11
	.quad	.Ltmp7
	.long	.Ltmp11-.Ltmp7
	.byte	12
	.byte	2
	.byte	145
	.byte	116
	.long	.Linfo_string13
	.byte	1
	.byte	20
	.long	104
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
