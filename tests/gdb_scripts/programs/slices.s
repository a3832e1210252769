# What rustc 1.95 made of slices.rs for x86-64, so that no Rust compiler is needed to test: rustc --crate-type=lib
# --emit asm -C opt-level=1 -C panic=abort -C overflow-checks=off -C debuginfo=2 -C dwarf-version=4 -C codegen-units=1
	.file	"slices.f0040b55f5118aa0-cgu.0"
	.section	.text._RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind,"ax",@progbits
	.globl	_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind
	.p2align	4
	.type	_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind,@function
_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind:
.Lfunc_begin0:
	.cfi_startproc
	.p2align	4
.LBB0_1:
	.file	1 "slices.rs"
	.loc	1 50 5 prologue_end
	jmp	.LBB0_1
.Ltmp0:
.Lfunc_end0:
	.size	_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind, .Lfunc_end0-_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind
	.cfi_endproc

	.section	.text._ZN6slices6Engine7forward17h8aae74742213e71eE,"ax",@progbits
	.p2align	4
	.type	_ZN6slices6Engine7forward17h8aae74742213e71eE,@function
_ZN6slices6Engine7forward17h8aae74742213e71eE:
.Lfunc_begin1:
	.loc	1 17 0
	.cfi_startproc
	movq	8(%rdi), %r8
.Ltmp1:
	.loc	1 19 15 prologue_end
	testq	%r8, %r8
	je	.LBB1_6
.Ltmp2:
	.loc	1 0 15 is_stmt 0
	movq	(%rdi), %rcx
	.loc	1 19 15
	movl	%r8d, %eax
	andl	$3, %eax
	cmpq	$4, %r8
	jae	.LBB1_10
.Ltmp3:
	.loc	1 0 15
	xorl	%r9d, %r9d
	.loc	1 19 15
	jmp	.LBB1_4
.Ltmp4:
.LBB1_10:
	andq	$-4, %r8
	xorl	%r9d, %r9d
.Ltmp5:
	.loc	1 0 15
.Ltmp6:
	.p2align	4
.LBB1_11:
	.loc	1 20 13 is_stmt 1
	addq	%rdx, (%rcx,%r9,8)
.Ltmp7:
	addq	%rdx, 8(%rcx,%r9,8)
.Ltmp8:
	addq	%rdx, 16(%rcx,%r9,8)
.Ltmp9:
	addq	%rdx, 24(%rcx,%r9,8)
	.loc	1 21 13
	addq	$4, %r9
.Ltmp10:
	.loc	1 19 15
	cmpq	%r9, %r8
	jne	.LBB1_11
.Ltmp11:
	testq	%rax, %rax
	je	.LBB1_6
.Ltmp12:
.LBB1_4:
	leaq	(%rcx,%r9,8), %rcx
	xorl	%r8d, %r8d
.Ltmp13:
	.loc	1 0 15 is_stmt 0
.Ltmp14:
	.p2align	4
.LBB1_5:
	.loc	1 20 13 is_stmt 1
	addq	%rdx, (%rcx,%r8,8)
.Ltmp15:
	.loc	1 19 15
	incq	%r8
.Ltmp16:
	cmpq	%r8, %rax
	jne	.LBB1_5
.Ltmp17:
.LBB1_6:
	.loc	1 23 9
	addq	%rdx, 16(%rdi)
.Ltmp18:
	.loc	1 0 9 is_stmt 0
	movl	24(%rdi), %eax
	.loc	1 26 13 is_stmt 1
	addl	(%rsi), %eax
.Ltmp19:
	.loc	1 25 15
	cmpq	$1, %rdx
	je	.LBB1_9
.Ltmp20:
	.loc	1 26 13
	addl	4(%rsi), %eax
.Ltmp21:
	.loc	1 25 15
	cmpq	$2, %rdx
	je	.LBB1_9
.Ltmp22:
	.loc	1 26 13
	addl	8(%rsi), %eax
.Ltmp23:
.LBB1_9:
	.loc	1 26 13
	movl	%eax, 24(%rdi)
	.loc	1 29 9
	movl	%eax, %ecx
	imulq	$1374389535, %rcx, %rcx
	shrq	$36, %rcx
	imull	$50, %ecx, %ecx
	subl	%ecx, %eax
.Ltmp24:
	.loc	1 30 6
	retq
.Ltmp25:
.Lfunc_end1:
	.size	_ZN6slices6Engine7forward17h8aae74742213e71eE, .Lfunc_end1-_ZN6slices6Engine7forward17h8aae74742213e71eE
	.cfi_endproc

	.section	.text.main,"ax",@progbits
	.globl	main
	.p2align	4
	.type	main,@function
main:
.Lfunc_begin2:
	.loc	1 34 0
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%rbx
	.cfi_def_cfa_offset 40
	subq	$72, %rsp
	.cfi_def_cfa_offset 112
	.cfi_offset %rbx, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	.loc	1 35 22 prologue_end
	xorps	%xmm0, %xmm0
	movaps	%xmm0, 48(%rsp)
	movq	$0, 64(%rsp)
	leaq	48(%rsp), %rax
.Ltmp26:
	.loc	1 36 22
	movq	%rax, 16(%rsp)
	movq	$3, 24(%rsp)
	movq	$0, 32(%rsp)
	movl	$0, 40(%rsp)
.Ltmp27:
	.loc	1 37 28
	leaq	.Lanon.08db852e03dc71a8196465ef67509187.0(%rip), %rsi
	leaq	16(%rsp), %rbx
	movl	$3, %edx
	movq	%rbx, %rdi
	callq	_ZN6slices6Engine7forward17h8aae74742213e71eE
	movl	%eax, %ebp
.Ltmp28:
	.loc	1 42 33
	movl	%eax, 12(%rsp)
	leaq	12(%rsp), %r14
	.loc	1 42 24 is_stmt 0
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	_ZN6slices6Engine7forward17h8aae74742213e71eE
.Ltmp29:
	.loc	1 41 9 is_stmt 1
	addl	%eax, %ebp
.Ltmp30:
	.loc	1 42 33
	movl	%eax, 12(%rsp)
	.loc	1 42 24 is_stmt 0
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	_ZN6slices6Engine7forward17h8aae74742213e71eE
.Ltmp31:
	movl	%eax, %r15d
.Ltmp32:
	.loc	1 42 33
	movl	%eax, 12(%rsp)
	.loc	1 42 24
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	_ZN6slices6Engine7forward17h8aae74742213e71eE
.Ltmp33:
	.loc	1 41 9 is_stmt 1
	addl	%eax, %r15d
	addl	%ebp, %r15d
.Ltmp34:
	.loc	1 42 33
	movl	%eax, 12(%rsp)
	.loc	1 42 24 is_stmt 0
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	_ZN6slices6Engine7forward17h8aae74742213e71eE
.Ltmp35:
	.loc	1 46 2 is_stmt 1
	movl	%r15d, %eax
	.loc	1 46 2 epilogue_begin is_stmt 0
	addq	$72, %rsp
	.cfi_def_cfa_offset 40
	popq	%rbx
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
.Ltmp36:
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Ltmp37:
.Lfunc_end2:
	.size	main, .Lfunc_end2-main
	.cfi_endproc

	.type	.Lanon.08db852e03dc71a8196465ef67509187.0,@object
	.section	.rodata..Lanon.08db852e03dc71a8196465ef67509187.0,"a",@progbits
	.p2align	2, 0x0
.Lanon.08db852e03dc71a8196465ef67509187.0:
	.asciz	"\013\000\000\000\f\000\000\000\r\000\000"
	.size	.Lanon.08db852e03dc71a8196465ef67509187.0, 12

	.section	.debug_loc,"",@progbits
.Ldebug_loc0:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Lfunc_begin1-.Lfunc_begin1
	.quad	.Lfunc_end1-.Lfunc_begin1
	.short	6
	.byte	84
	.byte	147
	.byte	8
	.byte	81
	.byte	147
	.byte	8
	.quad	0
	.quad	0
.Ldebug_loc1:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Lfunc_begin1-.Lfunc_begin1
	.quad	.Ltmp5-.Lfunc_begin1
	.short	2
	.byte	48
	.byte	159
	.quad	.Ltmp5-.Lfunc_begin1
	.quad	.Ltmp7-.Lfunc_begin1
	.short	1
	.byte	89
	.quad	.Ltmp7-.Lfunc_begin1
	.quad	.Ltmp8-.Lfunc_begin1
	.short	5
	.byte	121
	.byte	0
	.byte	49
	.byte	33
	.byte	159
	.quad	.Ltmp8-.Lfunc_begin1
	.quad	.Ltmp9-.Lfunc_begin1
	.short	5
	.byte	121
	.byte	0
	.byte	50
	.byte	33
	.byte	159
	.quad	.Ltmp9-.Lfunc_begin1
	.quad	.Ltmp10-.Lfunc_begin1
	.short	5
	.byte	121
	.byte	0
	.byte	51
	.byte	33
	.byte	159
	.quad	.Ltmp10-.Lfunc_begin1
	.quad	.Ltmp12-.Lfunc_begin1
	.short	1
	.byte	89
	.quad	.Ltmp13-.Lfunc_begin1
	.quad	.Ltmp15-.Lfunc_begin1
	.short	6
	.byte	120
	.byte	0
	.byte	121
	.byte	0
	.byte	34
	.byte	159
	.quad	.Ltmp15-.Lfunc_begin1
	.quad	.Ltmp16-.Lfunc_begin1
	.short	9
	.byte	120
	.byte	0
	.byte	17
	.byte	1
	.byte	121
	.byte	0
	.byte	34
	.byte	34
	.byte	159
	.quad	.Ltmp18-.Lfunc_begin1
	.quad	.Ltmp19-.Lfunc_begin1
	.short	2
	.byte	48
	.byte	159
	.quad	.Ltmp19-.Lfunc_begin1
	.quad	.Ltmp21-.Lfunc_begin1
	.short	2
	.byte	49
	.byte	159
	.quad	.Ltmp21-.Lfunc_begin1
	.quad	.Ltmp23-.Lfunc_begin1
	.short	2
	.byte	50
	.byte	159
	.quad	0
	.quad	0
.Ldebug_loc2:
	.quad	-1
	.quad	.Lfunc_begin2
	.quad	.Ltmp28-.Lfunc_begin2
	.quad	.Ltmp29-.Lfunc_begin2
	.short	1
	.byte	86
	.quad	.Ltmp29-.Lfunc_begin2
	.quad	.Ltmp31-.Lfunc_begin2
	.short	1
	.byte	80
	.quad	.Ltmp32-.Lfunc_begin2
	.quad	.Ltmp33-.Lfunc_begin2
	.short	1
	.byte	95
	.quad	.Ltmp33-.Lfunc_begin2
	.quad	.Ltmp35-.Lfunc_begin2
	.short	1
	.byte	80
	.quad	0
	.quad	0
.Ldebug_loc3:
	.quad	-1
	.quad	.Lfunc_begin2
	.quad	.Ltmp28-.Lfunc_begin2
	.quad	.Ltmp30-.Lfunc_begin2
	.short	2
	.byte	48
	.byte	159
	.quad	.Ltmp30-.Lfunc_begin2
	.quad	.Ltmp32-.Lfunc_begin2
	.short	1
	.byte	86
	.quad	.Ltmp34-.Lfunc_begin2
	.quad	.Ltmp36-.Lfunc_begin2
	.short	1
	.byte	95
	.quad	0
	.quad	0
.Ldebug_loc4:
	.quad	-1
	.quad	.Lfunc_begin2
	.quad	.Ltmp28-.Lfunc_begin2
	.quad	.Ltmp29-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	0
	.byte	159
	.quad	.Ltmp29-.Lfunc_begin2
	.quad	.Ltmp32-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	1
	.byte	159
	.quad	.Ltmp32-.Lfunc_begin2
	.quad	.Ltmp33-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	2
	.byte	159
	.quad	.Ltmp33-.Lfunc_begin2
	.quad	.Ltmp35-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	3
	.byte	159
	.quad	.Ltmp35-.Lfunc_begin2
	.quad	.Lfunc_end2-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	4
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
	.byte	85
	.byte	23
	.byte	0
	.byte	0
	.byte	2
	.byte	57
	.byte	1
	.byte	3
	.byte	14
	.byte	0
	.byte	0
	.byte	3
	.byte	46
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	64
	.byte	24
	.byte	110
	.byte	14
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	63
	.byte	25
	.ascii	"\207\001"
	.byte	25
	.byte	0
	.byte	0
	.byte	4
	.byte	5
	.byte	0
	.byte	2
	.byte	24
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	5
	.byte	19
	.byte	1
	.byte	3
	.byte	14
	.byte	11
	.byte	11
	.byte	50
	.byte	11
	.ascii	"\210\001"
	.byte	15
	.byte	0
	.byte	0
	.byte	6
	.byte	13
	.byte	0
	.byte	3
	.byte	14
	.byte	73
	.byte	19
	.ascii	"\210\001"
	.byte	15
	.byte	56
	.byte	11
	.byte	50
	.byte	11
	.byte	0
	.byte	0
	.byte	7
	.byte	46
	.byte	1
	.byte	110
	.byte	14
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	73
	.byte	19
	.byte	60
	.byte	25
	.byte	0
	.byte	0
	.byte	8
	.byte	5
	.byte	0
	.byte	73
	.byte	19
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
	.byte	73
	.byte	19
	.byte	63
	.byte	25
	.byte	0
	.byte	0
	.byte	10
	.byte	11
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	0
	.byte	0
	.byte	11
	.byte	52
	.byte	0
	.byte	2
	.byte	24
	.byte	3
	.byte	14
	.ascii	"\210\001"
	.byte	15
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	12
	.byte	52
	.byte	0
	.byte	2
	.byte	23
	.byte	3
	.byte	14
	.ascii	"\210\001"
	.byte	15
	.byte	58
	.byte	11
	.byte	59
	.byte	11
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	13
	.byte	19
	.byte	1
	.byte	3
	.byte	14
	.byte	11
	.byte	11
	.ascii	"\210\001"
	.byte	15
	.byte	0
	.byte	0
	.byte	14
	.byte	13
	.byte	0
	.byte	3
	.byte	14
	.byte	73
	.byte	19
	.ascii	"\210\001"
	.byte	15
	.byte	56
	.byte	11
	.byte	0
	.byte	0
	.byte	15
	.byte	15
	.byte	0
	.byte	73
	.byte	19
	.byte	51
	.byte	6
	.byte	0
	.byte	0
	.byte	16
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
	.byte	17
	.byte	15
	.byte	0
	.byte	73
	.byte	19
	.byte	3
	.byte	14
	.byte	51
	.byte	6
	.byte	0
	.byte	0
	.byte	18
	.byte	46
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	64
	.byte	24
	.byte	71
	.byte	19
	.byte	0
	.byte	0
	.byte	19
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
	.byte	20
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
	.byte	21
	.byte	51
	.byte	1
	.byte	21
	.byte	19
	.byte	0
	.byte	0
	.byte	22
	.byte	13
	.byte	0
	.byte	73
	.byte	19
	.ascii	"\210\001"
	.byte	15
	.byte	56
	.byte	11
	.byte	52
	.byte	25
	.byte	0
	.byte	0
	.byte	23
	.byte	25
	.byte	1
	.byte	0
	.byte	0
	.byte	24
	.byte	25
	.byte	1
	.byte	22
	.byte	11
	.byte	0
	.byte	0
	.byte	25
	.byte	19
	.byte	0
	.byte	3
	.byte	14
	.byte	11
	.byte	11
	.byte	50
	.byte	11
	.ascii	"\210\001"
	.byte	15
	.byte	0
	.byte	0
	.byte	26
	.byte	47
	.byte	0
	.byte	73
	.byte	19
	.byte	3
	.byte	14
	.byte	0
	.byte	0
	.byte	27
	.byte	21
	.byte	1
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	28
	.byte	19
	.byte	0
	.byte	3
	.byte	14
	.byte	11
	.byte	11
	.ascii	"\210\001"
	.byte	15
	.byte	0
	.byte	0
	.byte	29
	.byte	1
	.byte	1
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	30
	.byte	33
	.byte	0
	.byte	73
	.byte	19
	.byte	34
	.byte	13
	.byte	55
	.byte	11
	.byte	0
	.byte	0
	.byte	31
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
	.short	28
	.long	.Linfo_string1
	.long	.Lline_table_start0
	.long	.Linfo_string2
	.quad	0
	.long	.Ldebug_ranges0
	.byte	2
	.long	.Linfo_string3
	.byte	3
	.quad	.Lfunc_begin0
	.long	.Lfunc_end0-.Lfunc_begin0
	.byte	1
	.byte	87
	.long	.Linfo_string19
	.long	.Linfo_string20
	.byte	1
	.byte	49


	.byte	4
	.byte	1
	.byte	85
	.byte	1
	.byte	49
	.long	539
	.byte	0
	.byte	5
	.long	.Linfo_string14
	.byte	32
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string4
	.long	349
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string11
	.long	388
	.byte	8
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string12
	.long	395
	.byte	4
	.byte	24
	.byte	3
	.byte	7
	.long	.Linfo_string15
	.long	.Linfo_string16
	.byte	1
	.byte	17
	.long	395

	.byte	8
	.long	402
	.byte	8
	.long	415
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string8
	.byte	8
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string6
	.long	388
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	9
	.quad	.Lfunc_begin2
	.long	.Lfunc_end2-.Lfunc_begin2
	.byte	1
	.byte	87
	.long	.Linfo_string21
	.byte	1
	.byte	34
	.long	532

	.byte	10
	.quad	.Ltmp26
	.long	.Ltmp35-.Ltmp26
	.byte	11
	.byte	2
	.byte	145
	.byte	48
	.long	.Linfo_string4
	.byte	8
	.byte	1
	.byte	35
	.long	1568
	.byte	10
	.quad	.Ltmp27
	.long	.Ltmp35-.Ltmp27
	.byte	11
	.byte	2
	.byte	145
	.byte	16
	.long	.Linfo_string97
	.byte	8
	.byte	1
	.byte	36
	.long	82
	.byte	10
	.quad	.Ltmp28
	.long	.Ltmp35-.Ltmp28
	.byte	12
	.long	.Ldebug_loc2
	.long	.Linfo_string98
	.byte	4
	.byte	1
	.byte	37
	.long	395
	.byte	10
	.quad	.Ltmp28
	.long	.Ltmp35-.Ltmp28
	.byte	12
	.long	.Ldebug_loc3
	.long	.Linfo_string99
	.byte	4
	.byte	1
	.byte	38
	.long	395
	.byte	10
	.quad	.Ltmp28
	.long	.Ltmp35-.Ltmp28
	.byte	12
	.long	.Ldebug_loc4
	.long	.Linfo_string96
	.byte	4
	.byte	1
	.byte	39
	.long	532
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	13
	.long	.Linfo_string10
	.byte	16
	.byte	8
	.byte	14
	.long	.Linfo_string5
	.long	379
	.byte	8
	.byte	0
	.byte	14
	.long	.Linfo_string9
	.long	388
	.byte	8
	.byte	8
	.byte	0
	.byte	15
	.long	153
	.long	0
	.byte	16
	.long	.Linfo_string7
	.byte	7
	.byte	8
	.byte	16
	.long	.Linfo_string13
	.byte	7
	.byte	4
	.byte	17
	.long	82
	.long	.Linfo_string17
	.long	0
	.byte	13
	.long	.Linfo_string18
	.byte	16
	.byte	8
	.byte	14
	.long	.Linfo_string5
	.long	445
	.byte	8
	.byte	0
	.byte	14
	.long	.Linfo_string9
	.long	388
	.byte	8
	.byte	8
	.byte	0
	.byte	15
	.long	395
	.long	0
	.byte	18
	.quad	.Lfunc_begin1
	.long	.Lfunc_end1-.Lfunc_begin1
	.byte	1
	.byte	87
	.long	126
	.byte	19
	.byte	1
	.byte	85
	.long	.Linfo_string94
	.byte	1
	.byte	17
	.long	402
	.byte	20
	.long	.Ldebug_loc0
	.long	.Linfo_string95
	.byte	1
	.byte	17
	.long	415
	.byte	10
	.quad	.Ltmp1
	.long	.Ltmp24-.Ltmp1
	.byte	12
	.long	.Ldebug_loc1
	.long	.Linfo_string96
	.byte	8
	.byte	1
	.byte	18
	.long	388
	.byte	0
	.byte	0
	.byte	16
	.long	.Linfo_string22
	.byte	5
	.byte	4
	.byte	17
	.long	567
	.long	.Linfo_string93
	.long	0
	.byte	2
	.long	.Linfo_string23
	.byte	2
	.long	.Linfo_string20
	.byte	2
	.long	.Linfo_string24
	.byte	5
	.long	.Linfo_string92
	.byte	24
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string25
	.long	1265
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string78
	.long	1479
	.byte	8
	.byte	8
	.byte	3
	.byte	6
	.long	.Linfo_string89
	.long	1561
	.byte	1
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string91
	.long	1561
	.byte	1
	.byte	17
	.byte	3
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string78
	.byte	5
	.long	.Linfo_string87
	.byte	24
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string79
	.long	1056
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string82
	.long	395
	.byte	4
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string83
	.long	395
	.byte	4
	.byte	20
	.byte	3
	.byte	6
	.long	.Linfo_string84
	.long	1245
	.byte	1
	.byte	24
	.byte	3
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string26
	.byte	5
	.long	.Linfo_string76
	.byte	16
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string27
	.long	966
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string35
	.long	996
	.byte	8
	.byte	8
	.byte	3
	.byte	0
	.byte	2
	.long	.Linfo_string36
	.byte	5
	.long	.Linfo_string73
	.byte	16
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string37
	.long	753
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string72
	.byte	16
	.byte	3
	.byte	8
	.byte	21
	.long	766
	.byte	22
	.long	1298
	.byte	8
	.byte	0

	.byte	23
	.byte	14
	.long	.Linfo_string39
	.long	801
	.byte	8
	.byte	0
	.byte	0
	.byte	24
	.byte	0
	.byte	14
	.long	.Linfo_string71
	.long	846
	.byte	8
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string39
	.byte	16
	.byte	3
	.byte	8
	.byte	6
	.long	.Linfo_string40
	.long	1026
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string44
	.long	1325
	.byte	8
	.byte	8
	.byte	3
	.byte	6
	.long	.Linfo_string67
	.long	1227
	.byte	1
	.byte	16
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string71
	.byte	16
	.byte	3
	.byte	8
	.byte	6
	.long	.Linfo_string49
	.long	1367
	.byte	2
	.byte	8
	.byte	3
	.byte	0
	.byte	0
	.byte	0
	.byte	25
	.long	.Linfo_string47
	.byte	0
	.byte	1
	.byte	1
	.byte	5
	.long	.Linfo_string64
	.byte	24
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string52
	.long	910
	.byte	4
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string58
	.long	1374
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string57
	.byte	8
	.byte	1
	.byte	4
	.byte	6
	.long	.Linfo_string53
	.long	395
	.byte	4
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string54
	.long	1367
	.byte	2
	.byte	4
	.byte	3
	.byte	6
	.long	.Linfo_string56
	.long	1367
	.byte	2
	.byte	6
	.byte	3
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string28
	.byte	2
	.long	.Linfo_string29
	.byte	5
	.long	.Linfo_string34
	.byte	8
	.byte	1
	.byte	8
	.byte	26
	.long	1278
	.long	.Linfo_string31
	.byte	6
	.long	.Linfo_string32
	.long	1285
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string75
	.byte	8
	.byte	1
	.byte	8
	.byte	26
	.long	732
	.long	.Linfo_string31
	.byte	6
	.long	.Linfo_string32
	.long	1466
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string43
	.byte	8
	.byte	1
	.byte	8
	.byte	26
	.long	1305
	.long	.Linfo_string31
	.byte	6
	.long	.Linfo_string32
	.long	1312
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string81
	.byte	16
	.byte	1
	.byte	8
	.byte	26
	.long	1278
	.long	.Linfo_string31
	.byte	6
	.long	.Linfo_string32
	.long	1492
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string45
	.byte	5
	.long	.Linfo_string51
	.byte	1
	.byte	1
	.byte	1
	.byte	21
	.long	1106
	.byte	22
	.long	1278
	.byte	1
	.byte	0

	.byte	24
	.byte	0
	.byte	14
	.long	.Linfo_string46
	.long	1142
	.byte	1
	.byte	0
	.byte	0
	.byte	24
	.byte	1
	.byte	14
	.long	.Linfo_string50
	.long	1181
	.byte	1
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string46
	.byte	1
	.byte	1
	.byte	1
	.byte	26
	.long	1305
	.long	.Linfo_string31
	.byte	26
	.long	869
	.long	.Linfo_string48
	.byte	6
	.long	.Linfo_string49
	.long	1305
	.byte	1
	.byte	1
	.byte	1
	.byte	0
	.byte	5
	.long	.Linfo_string50
	.byte	1
	.byte	1
	.byte	1
	.byte	26
	.long	1305
	.long	.Linfo_string31
	.byte	26
	.long	869
	.long	.Linfo_string48
	.byte	6
	.long	.Linfo_string49
	.long	869
	.byte	1
	.byte	1
	.byte	1
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string68
	.byte	5
	.long	.Linfo_string70
	.byte	0
	.byte	1
	.byte	1
	.byte	26
	.long	1453
	.long	.Linfo_string31
	.byte	0
	.byte	5
	.long	.Linfo_string86
	.byte	0
	.byte	1
	.byte	1
	.byte	26
	.long	1531
	.long	.Linfo_string31
	.byte	0
	.byte	0
	.byte	0
	.byte	17
	.long	694
	.long	.Linfo_string77
	.long	0
	.byte	16
	.long	.Linfo_string30
	.byte	7
	.byte	1
	.byte	17
	.long	1278
	.long	.Linfo_string33
	.long	0
	.byte	16
	.long	.Linfo_string38
	.byte	7
	.byte	8
	.byte	16
	.long	.Linfo_string41
	.byte	7
	.byte	0
	.byte	17
	.long	1305
	.long	.Linfo_string42
	.long	0
	.byte	17
	.long	1338
	.long	.Linfo_string66
	.long	0
	.byte	27
	.long	1093
	.byte	8
	.long	1026
	.byte	8
	.long	1354
	.byte	0
	.byte	17
	.long	877
	.long	.Linfo_string65
	.long	0
	.byte	16
	.long	.Linfo_string55
	.byte	7
	.byte	2
	.byte	13
	.long	.Linfo_string63
	.byte	16
	.byte	8
	.byte	14
	.long	.Linfo_string32
	.long	1404
	.byte	8
	.byte	0
	.byte	14
	.long	.Linfo_string60
	.long	1420
	.byte	8
	.byte	8
	.byte	0
	.byte	15
	.long	1413
	.long	0
	.byte	28
	.long	.Linfo_string59
	.byte	0
	.byte	1
	.byte	17
	.long	1433
	.long	.Linfo_string62
	.long	0
	.byte	29
	.long	388
	.byte	30
	.long	1446
	.byte	0
	.byte	6
	.byte	0
	.byte	31
	.long	.Linfo_string61
	.byte	8
	.byte	7
	.byte	17
	.long	1305
	.long	.Linfo_string69
	.long	0
	.byte	17
	.long	732
	.long	.Linfo_string74
	.long	0
	.byte	17
	.long	630
	.long	.Linfo_string88
	.long	0
	.byte	13
	.long	.Linfo_string80
	.byte	16
	.byte	8
	.byte	14
	.long	.Linfo_string5
	.long	1522
	.byte	8
	.byte	0
	.byte	14
	.long	.Linfo_string9
	.long	388
	.byte	8
	.byte	8
	.byte	0
	.byte	15
	.long	1278
	.long	0
	.byte	13
	.long	.Linfo_string85
	.byte	16
	.byte	8
	.byte	14
	.long	.Linfo_string5
	.long	1522
	.byte	8
	.byte	0
	.byte	14
	.long	.Linfo_string9
	.long	388
	.byte	8
	.byte	8
	.byte	0
	.byte	16
	.long	.Linfo_string90
	.byte	2
	.byte	1
	.byte	29
	.long	153
	.byte	30
	.long	1446
	.byte	0
	.byte	3
	.byte	0
	.byte	0
.Ldebug_info_end0:
	.section	.text._RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind,"ax",@progbits
.Lsec_end0:
	.section	.text._ZN6slices6Engine7forward17h8aae74742213e71eE,"ax",@progbits
.Lsec_end1:
	.section	.text.main,"ax",@progbits
.Lsec_end2:
	.section	.debug_aranges,"",@progbits
	.long	76
	.short	2
	.long	.Lcu_begin0
	.byte	8
	.byte	0
	.zero	4,255
	.quad	.Lfunc_begin0
	.quad	.Lsec_end0-.Lfunc_begin0
	.quad	.Lfunc_begin1
	.quad	.Lsec_end1-.Lfunc_begin1
	.quad	.Lfunc_begin2
	.quad	.Lsec_end2-.Lfunc_begin2
	.quad	0
	.quad	0
	.section	.debug_ranges,"",@progbits
.Ldebug_ranges0:
	.quad	.Lfunc_begin0
	.quad	.Lfunc_end0
	.quad	.Lfunc_begin1
	.quad	.Lfunc_end1
	.quad	.Lfunc_begin2
	.quad	.Lfunc_end2
	.quad	0
	.quad	0
	.section	.debug_str,"MS",@progbits,1
.Linfo_string0:
	.asciz	"clang LLVM (rustc version 1.95.0 (59807616e 2026-04-14))"
.Linfo_string1:
	.asciz	"slices.rs/@/slices.f0040b55f5118aa0-cgu.0"
.Linfo_string2:
	.asciz	"."
.Linfo_string3:
	.asciz	"slices"
.Linfo_string4:
	.asciz	"layers"
.Linfo_string5:
	.asciz	"data_ptr"
.Linfo_string6:
	.asciz	"used"
.Linfo_string7:
	.asciz	"usize"
.Linfo_string8:
	.asciz	"Layer"
.Linfo_string9:
	.asciz	"length"
.Linfo_string10:
	.asciz	"&mut [slices::Layer]"
.Linfo_string11:
	.asciz	"n_past"
.Linfo_string12:
	.asciz	"sum"
.Linfo_string13:
	.asciz	"u32"
.Linfo_string14:
	.asciz	"Engine"
.Linfo_string15:
	.asciz	"_ZN6slices6Engine7forward17h8aae74742213e71eE"
.Linfo_string16:
	.asciz	"forward"
.Linfo_string17:
	.asciz	"&mut slices::Engine"
.Linfo_string18:
	.asciz	"&[u32]"
.Linfo_string19:
	.asciz	"_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind"
.Linfo_string20:
	.asciz	"panic"
.Linfo_string21:
	.asciz	"main"
.Linfo_string22:
	.asciz	"i32"
.Linfo_string23:
	.asciz	"core"
.Linfo_string24:
	.asciz	"panic_info"
.Linfo_string25:
	.asciz	"message"
.Linfo_string26:
	.asciz	"fmt"
.Linfo_string27:
	.asciz	"template"
.Linfo_string28:
	.asciz	"ptr"
.Linfo_string29:
	.asciz	"non_null"
.Linfo_string30:
	.asciz	"u8"
.Linfo_string31:
	.asciz	"T"
.Linfo_string32:
	.asciz	"pointer"
.Linfo_string33:
	.asciz	"*const u8"
.Linfo_string34:
	.asciz	"NonNull<u8>"
.Linfo_string35:
	.asciz	"args"
.Linfo_string36:
	.asciz	"rt"
.Linfo_string37:
	.asciz	"ty"
.Linfo_string38:
	.asciz	"u64"
.Linfo_string39:
	.asciz	"Placeholder"
.Linfo_string40:
	.asciz	"value"
.Linfo_string41:
	.asciz	"()"
.Linfo_string42:
	.asciz	"*const ()"
.Linfo_string43:
	.asciz	"NonNull<()>"
.Linfo_string44:
	.asciz	"formatter"
.Linfo_string45:
	.asciz	"result"
.Linfo_string46:
	.asciz	"Ok"
.Linfo_string47:
	.asciz	"Error"
.Linfo_string48:
	.asciz	"E"
.Linfo_string49:
	.asciz	"__0"
.Linfo_string50:
	.asciz	"Err"
.Linfo_string51:
	.asciz	"Result<(), core::fmt::Error>"
.Linfo_string52:
	.asciz	"options"
.Linfo_string53:
	.asciz	"flags"
.Linfo_string54:
	.asciz	"width"
.Linfo_string55:
	.asciz	"u16"
.Linfo_string56:
	.asciz	"precision"
.Linfo_string57:
	.asciz	"FormattingOptions"
.Linfo_string58:
	.asciz	"buf"
.Linfo_string59:
	.asciz	"dyn core::fmt::Write"
.Linfo_string60:
	.asciz	"vtable"
.Linfo_string61:
	.asciz	"__ARRAY_SIZE_TYPE__"
.Linfo_string62:
	.asciz	"&[usize; 6]"
.Linfo_string63:
	.asciz	"&mut dyn core::fmt::Write"
.Linfo_string64:
	.asciz	"Formatter"
.Linfo_string65:
	.asciz	"&mut core::fmt::Formatter"
.Linfo_string66:
	.asciz	"unsafe fn(core::ptr::non_null::NonNull<()>, &mut core::fmt::Formatter) -> core::result::Result<(), core::fmt::Error>"
.Linfo_string67:
	.asciz	"_lifetime"
.Linfo_string68:
	.asciz	"marker"
.Linfo_string69:
	.asciz	"&()"
.Linfo_string70:
	.asciz	"PhantomData<&()>"
.Linfo_string71:
	.asciz	"Count"
.Linfo_string72:
	.asciz	"ArgumentType"
.Linfo_string73:
	.asciz	"Argument"
.Linfo_string74:
	.asciz	"*const core::fmt::rt::Argument"
.Linfo_string75:
	.asciz	"NonNull<core::fmt::rt::Argument>"
.Linfo_string76:
	.asciz	"Arguments"
.Linfo_string77:
	.asciz	"&core::fmt::Arguments"
.Linfo_string78:
	.asciz	"location"
.Linfo_string79:
	.asciz	"filename"
.Linfo_string80:
	.asciz	"*const str"
.Linfo_string81:
	.asciz	"NonNull<str>"
.Linfo_string82:
	.asciz	"line"
.Linfo_string83:
	.asciz	"col"
.Linfo_string84:
	.asciz	"_filename"
.Linfo_string85:
	.asciz	"&str"
.Linfo_string86:
	.asciz	"PhantomData<&str>"
.Linfo_string87:
	.asciz	"Location"
.Linfo_string88:
	.asciz	"&core::panic::location::Location"
.Linfo_string89:
	.asciz	"can_unwind"
.Linfo_string90:
	.asciz	"bool"
.Linfo_string91:
	.asciz	"force_no_backtrace"
.Linfo_string92:
	.asciz	"PanicInfo"
.Linfo_string93:
	.asciz	"&core::panic::panic_info::PanicInfo"
.Linfo_string94:
	.asciz	"self"
.Linfo_string95:
	.asciz	"tokens"
.Linfo_string96:
	.asciz	"i"
.Linfo_string97:
	.asciz	"engine"
.Linfo_string98:
	.asciz	"token"
.Linfo_string99:
	.asciz	"all"
	.ident	"rustc version 1.95.0 (59807616e 2026-04-14)"
	.section	".note.GNU-stack","",@progbits
	.section	.debug_line,"",@progbits
.Lline_table_start0:
