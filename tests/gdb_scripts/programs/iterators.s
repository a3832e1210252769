# What rustc 1.95 made of iterators.rs for x86-64, so that no Rust compiler is needed to test: rustc --crate-type=lib
# --emit asm -C opt-level=1 -C panic=abort -C overflow-checks=off -C debuginfo=2 -C dwarf-version=4 -C codegen-units=1
	.file	"iterators.53ec9449411a796f-cgu.0"
	.section	.text._RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind,"ax",@progbits
	.globl	_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind
	.p2align	4
	.type	_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind,@function
_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind:
.Lfunc_begin0:
	.cfi_startproc
	.p2align	4
.LBB0_1:
	.file	1 "iterators.rs"
	.loc	1 62 5 prologue_end
	jmp	.LBB0_1
.Ltmp0:
.Lfunc_end0:
	.size	_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind, .Lfunc_end0-_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind
	.cfi_endproc

	.section	".text._ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E","ax",@progbits
	.globl	_ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E
	.p2align	4
	.type	_ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E,@function
_ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E:
.Lfunc_begin1:
	.loc	1 31 0
	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset %rbx, -16
.Ltmp1:
	.loc	1 19 9 prologue_end
	movq	8(%rdi), %rax
.Ltmp2:
	.file	2 "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860" "library/core/src/ptr/non_null.rs"
	.loc	2 1720 9
	testq	%rax, %rax
.Ltmp3:
	.loc	1 32 22
	je	.LBB1_5
.Ltmp4:
	.loc	1 32 0 is_stmt 0
	movq	(%rdi), %rcx
.Ltmp5:
	leaq	(%rcx,%rax,8), %rax
.Ltmp6:
	.file	3 "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860" "library/core/src/slice/iter/macros.rs"
	.loc	3 180 28 is_stmt 1
	leaq	8(%rcx), %r11
	leaq	(,%rdx,4), %r8
	leaq	-8(%rsp), %r9
.Ltmp7:
	.loc	1 32 22
	jmp	.LBB1_3
.Ltmp8:
	.loc	1 0 22 is_stmt 0
.Ltmp9:
	.p2align	4
.LBB1_2:
	.loc	2 1720 9 is_stmt 1
	xorl	%r10d, %r10d
	cmpq	%rax, %rcx
	setne	%r10b
.Ltmp10:
	.loc	3 180 28
	leaq	(%rcx,%r10,8), %r11
.Ltmp11:
	.loc	1 32 22
	je	.LBB1_5
.Ltmp12:
.LBB1_3:
	.loc	1 0 22 is_stmt 0
	movq	%rcx, %r10
	movq	%r11, %rcx
.Ltmp13:
	movq	%r8, %r11
	testq	%rdx, %rdx
.Ltmp14:
	.loc	1 33 22 is_stmt 1
	je	.LBB1_2
.Ltmp15:
	.loc	1 0 22 is_stmt 0
.Ltmp16:
	.p2align	4
.LBB1_4:
	.loc	1 34 52 is_stmt 1
	movq	(%r10), %rbx
	incq	%rbx
.Ltmp17:
	.file	4 "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860" "library/core/src/hint.rs"
	.loc	4 491 5
	movq	%rbx, -8(%rsp)
	#APP
	#NO_APP
	movq	-8(%rsp), %rbx
.Ltmp18:
	.loc	1 34 17
	movq	%rbx, (%r10)
.Ltmp19:
	.loc	2 1720 9
	addq	$-4, %r11
.Ltmp20:
	.loc	1 33 22
	jne	.LBB1_4
	jmp	.LBB1_2
.Ltmp21:
.LBB1_5:
	.loc	1 37 9
	addq	%rdx, 16(%rdi)
.Ltmp22:
	.loc	2 1720 9
	testq	%rdx, %rdx
.Ltmp23:
	.loc	1 38 22
	je	.LBB1_8
.Ltmp24:
	.loc	1 0 22 is_stmt 0
	shlq	$2, %rdx
.Ltmp25:
	movl	24(%rdi), %ecx
	xorl	%eax, %eax
	leaq	-12(%rsp), %r8
.Ltmp26:
	.p2align	4
.LBB1_7:
	.file	5 "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860" "library/core/src/ops/arith.rs"
	.loc	5 105 45 is_stmt 1
	addl	(%rsi,%rax), %ecx
.Ltmp27:
	.loc	4 491 5
	movl	%ecx, -12(%rsp)
	#APP
	#NO_APP
	movl	-12(%rsp), %ecx
.Ltmp28:
	.loc	1 39 13
	movl	%ecx, 24(%rdi)
.Ltmp29:
	.loc	2 1720 9
	addq	$4, %rax
.Ltmp30:
	cmpq	%rax, %rdx
.Ltmp31:
	.loc	1 38 22
	jne	.LBB1_7
.Ltmp32:
.LBB1_8:
	.loc	1 41 9
	movl	24(%rdi), %eax
	imulq	$1374389535, %rax, %rcx
	shrq	$36, %rcx
	imull	$50, %ecx, %ecx
	subl	%ecx, %eax
	.loc	1 42 6 epilogue_begin
	popq	%rbx
	.cfi_def_cfa_offset 8
	retq
.Ltmp33:
.Lfunc_end1:
	.size	_ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E, .Lfunc_end1-_ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E
	.cfi_endproc
	.file	6 "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860" "library/core/src/internal_macros.rs"

	.section	.text.main,"ax",@progbits
	.globl	main
	.p2align	4
	.type	main,@function
main:
.Lfunc_begin2:
	.loc	1 46 0
	.cfi_startproc
	pushq	%rbp
	.cfi_def_cfa_offset 16
	pushq	%r15
	.cfi_def_cfa_offset 24
	pushq	%r14
	.cfi_def_cfa_offset 32
	pushq	%r12
	.cfi_def_cfa_offset 40
	pushq	%rbx
	.cfi_def_cfa_offset 48
	subq	$80, %rsp
	.cfi_def_cfa_offset 128
	.cfi_offset %rbx, -48
	.cfi_offset %r12, -40
	.cfi_offset %r14, -32
	.cfi_offset %r15, -24
	.cfi_offset %rbp, -16
	.loc	1 47 22 prologue_end
	xorps	%xmm0, %xmm0
	movaps	%xmm0, 48(%rsp)
	movq	$0, 64(%rsp)
	leaq	48(%rsp), %rax
.Ltmp34:
	.loc	1 48 22
	movq	%rax, 16(%rsp)
	movq	$3, 24(%rsp)
	movq	$0, 32(%rsp)
	movl	$0, 40(%rsp)
.Ltmp35:
	.loc	1 49 28
	leaq	.Lanon.ac2e898cc7500a87f51ea2290a0f7f2b.0(%rip), %rsi
	movq	_ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E@GOTPCREL(%rip), %r12
	leaq	16(%rsp), %rbx
	movl	$3, %edx
	movq	%rbx, %rdi
	callq	*%r12
	movl	%eax, %ebp
.Ltmp36:
	.loc	1 54 33
	movl	%eax, 12(%rsp)
	leaq	12(%rsp), %r14
	.loc	1 54 24 is_stmt 0
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	*%r12
.Ltmp37:
	.loc	1 53 9 is_stmt 1
	addl	%eax, %ebp
.Ltmp38:
	.loc	1 54 33
	movl	%eax, 12(%rsp)
	.loc	1 54 24 is_stmt 0
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	*%r12
.Ltmp39:
	movl	%eax, %r15d
.Ltmp40:
	.loc	1 54 33
	movl	%eax, 12(%rsp)
	.loc	1 54 24
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	*%r12
.Ltmp41:
	.loc	1 53 9 is_stmt 1
	addl	%eax, %r15d
	addl	%ebp, %r15d
.Ltmp42:
	.loc	1 54 33
	movl	%eax, 12(%rsp)
	.loc	1 54 24 is_stmt 0
	movl	$1, %edx
	movq	%rbx, %rdi
	movq	%r14, %rsi
	callq	*%r12
.Ltmp43:
	.loc	1 58 2 is_stmt 1
	movl	%r15d, %eax
	.loc	1 58 2 epilogue_begin is_stmt 0
	addq	$80, %rsp
	.cfi_def_cfa_offset 48
	popq	%rbx
	.cfi_def_cfa_offset 40
	popq	%r12
	.cfi_def_cfa_offset 32
	popq	%r14
	.cfi_def_cfa_offset 24
	popq	%r15
.Ltmp44:
	.cfi_def_cfa_offset 16
	popq	%rbp
	.cfi_def_cfa_offset 8
	retq
.Ltmp45:
.Lfunc_end2:
	.size	main, .Lfunc_end2-main
	.cfi_endproc

	.type	.Lanon.ac2e898cc7500a87f51ea2290a0f7f2b.0,@object
	.section	.rodata..Lanon.ac2e898cc7500a87f51ea2290a0f7f2b.0,"a",@progbits
	.p2align	2, 0x0
.Lanon.ac2e898cc7500a87f51ea2290a0f7f2b.0:
	.asciz	"\013\000\000\000\f\000\000\000\r\000\000"
	.size	.Lanon.ac2e898cc7500a87f51ea2290a0f7f2b.0, 12

	.section	.debug_loc,"",@progbits
.Ldebug_loc0:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Lfunc_begin1-.Lfunc_begin1
	.quad	.Ltmp25-.Lfunc_begin1
	.short	6
	.byte	84
	.byte	147
	.byte	8
	.byte	81
	.byte	147
	.byte	8
	.quad	.Ltmp25-.Lfunc_begin1
	.quad	.Lfunc_end1-.Lfunc_begin1
	.short	3
	.byte	84
	.byte	147
	.byte	8
	.quad	0
	.quad	0
.Ldebug_loc1:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Ltmp5-.Lfunc_begin1
	.quad	.Ltmp6-.Lfunc_begin1
	.short	3
	.byte	82
	.byte	147
	.byte	8
	.quad	.Ltmp6-.Lfunc_begin1
	.quad	.Ltmp11-.Lfunc_begin1
	.short	6
	.byte	82
	.byte	147
	.byte	8
	.byte	80
	.byte	147
	.byte	8
	.quad	.Ltmp11-.Lfunc_begin1
	.quad	.Ltmp12-.Lfunc_begin1
	.short	6
	.byte	91
	.byte	147
	.byte	8
	.byte	80
	.byte	147
	.byte	8
	.quad	.Ltmp12-.Lfunc_begin1
	.quad	.Ltmp13-.Lfunc_begin1
	.short	5
	.byte	147
	.byte	8
	.byte	80
	.byte	147
	.byte	8
	.quad	.Ltmp13-.Lfunc_begin1
	.quad	.Ltmp21-.Lfunc_begin1
	.short	6
	.byte	90
	.byte	147
	.byte	8
	.byte	80
	.byte	147
	.byte	8
	.quad	0
	.quad	0
.Ldebug_loc2:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Ltmp6-.Lfunc_begin1
	.quad	.Ltmp12-.Lfunc_begin1
	.short	1
	.byte	80
	.quad	0
	.quad	0
.Ldebug_loc3:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Ltmp5-.Lfunc_begin1
	.quad	.Ltmp12-.Lfunc_begin1
	.short	1
	.byte	82
	.quad	0
	.quad	0
.Ldebug_loc4:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Ltmp13-.Lfunc_begin1
	.quad	.Ltmp15-.Lfunc_begin1
	.short	11
	.byte	84
	.byte	147
	.byte	8
	.byte	116
	.byte	0
	.byte	120
	.byte	0
	.byte	34
	.byte	159
	.byte	147
	.byte	8
	.quad	.Ltmp15-.Lfunc_begin1
	.quad	.Ltmp20-.Lfunc_begin1
	.short	11
	.byte	91
	.byte	147
	.byte	8
	.byte	116
	.byte	0
	.byte	120
	.byte	0
	.byte	34
	.byte	159
	.byte	147
	.byte	8
	.quad	.Ltmp20-.Lfunc_begin1
	.quad	.Ltmp21-.Lfunc_begin1
	.short	10
	.byte	147
	.byte	8
	.byte	116
	.byte	0
	.byte	120
	.byte	0
	.byte	34
	.byte	159
	.byte	147
	.byte	8
	.quad	0
	.quad	0
.Ldebug_loc5:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Ltmp22-.Lfunc_begin1
	.quad	.Ltmp25-.Lfunc_begin1
	.short	3
	.byte	84
	.byte	147
	.byte	8
	.quad	.Ltmp25-.Lfunc_begin1
	.quad	.Ltmp26-.Lfunc_begin1
	.short	11
	.byte	84
	.byte	147
	.byte	8
	.byte	116
	.byte	0
	.byte	113
	.byte	0
	.byte	34
	.byte	159
	.byte	147
	.byte	8
	.quad	.Ltmp26-.Lfunc_begin1
	.quad	.Ltmp30-.Lfunc_begin1
	.short	11
	.byte	80
	.byte	147
	.byte	8
	.byte	116
	.byte	0
	.byte	113
	.byte	0
	.byte	34
	.byte	159
	.byte	147
	.byte	8
	.quad	.Ltmp30-.Lfunc_begin1
	.quad	.Ltmp32-.Lfunc_begin1
	.short	10
	.byte	147
	.byte	8
	.byte	116
	.byte	0
	.byte	113
	.byte	0
	.byte	34
	.byte	159
	.byte	147
	.byte	8
	.quad	0
	.quad	0
.Ldebug_loc6:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Ltmp26-.Lfunc_begin1
	.quad	.Ltmp32-.Lfunc_begin1
	.short	6
	.byte	116
	.byte	0
	.byte	113
	.byte	0
	.byte	34
	.byte	159
	.quad	0
	.quad	0
.Ldebug_loc7:
	.quad	-1
	.quad	.Lfunc_begin1
	.quad	.Ltmp22-.Lfunc_begin1
	.quad	.Ltmp24-.Lfunc_begin1
	.short	1
	.byte	84
	.quad	.Ltmp29-.Lfunc_begin1
	.quad	.Ltmp30-.Lfunc_begin1
	.short	15
	.byte	112
	.byte	0
	.byte	17
	.byte	4
	.byte	27
	.byte	17
	.byte	4
	.byte	30
	.byte	17
	.byte	4
	.byte	116
	.byte	0
	.byte	34
	.byte	34
	.byte	159
	.quad	0
	.quad	0
.Ldebug_loc8:
	.quad	-1
	.quad	.Lfunc_begin2
	.quad	.Ltmp36-.Lfunc_begin2
	.quad	.Ltmp37-.Lfunc_begin2
	.short	1
	.byte	86
	.quad	.Ltmp37-.Lfunc_begin2
	.quad	.Ltmp39-.Lfunc_begin2
	.short	1
	.byte	80
	.quad	.Ltmp40-.Lfunc_begin2
	.quad	.Ltmp41-.Lfunc_begin2
	.short	1
	.byte	95
	.quad	.Ltmp41-.Lfunc_begin2
	.quad	.Ltmp43-.Lfunc_begin2
	.short	1
	.byte	80
	.quad	0
	.quad	0
.Ldebug_loc9:
	.quad	-1
	.quad	.Lfunc_begin2
	.quad	.Ltmp36-.Lfunc_begin2
	.quad	.Ltmp38-.Lfunc_begin2
	.short	2
	.byte	48
	.byte	159
	.quad	.Ltmp38-.Lfunc_begin2
	.quad	.Ltmp40-.Lfunc_begin2
	.short	1
	.byte	86
	.quad	.Ltmp42-.Lfunc_begin2
	.quad	.Ltmp44-.Lfunc_begin2
	.short	1
	.byte	95
	.quad	0
	.quad	0
.Ldebug_loc10:
	.quad	-1
	.quad	.Lfunc_begin2
	.quad	.Ltmp36-.Lfunc_begin2
	.quad	.Ltmp37-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	0
	.byte	159
	.quad	.Ltmp37-.Lfunc_begin2
	.quad	.Ltmp40-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	1
	.byte	159
	.quad	.Ltmp40-.Lfunc_begin2
	.quad	.Ltmp41-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	2
	.byte	159
	.quad	.Ltmp41-.Lfunc_begin2
	.quad	.Ltmp43-.Lfunc_begin2
	.short	3
	.byte	17
	.byte	3
	.byte	159
	.quad	.Ltmp43-.Lfunc_begin2
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
	.byte	29
	.byte	1
	.byte	49
	.byte	19
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	88
	.byte	11
	.byte	89
	.byte	11
	.byte	87
	.byte	11
	.byte	0
	.byte	0
	.byte	13
	.byte	5
	.byte	0
	.byte	2
	.byte	24
	.byte	49
	.byte	19
	.byte	0
	.byte	0
	.byte	14
	.byte	11
	.byte	1
	.byte	85
	.byte	23
	.byte	0
	.byte	0
	.byte	15
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
	.byte	16
	.byte	29
	.byte	1
	.byte	49
	.byte	19
	.byte	85
	.byte	23
	.byte	88
	.byte	11
	.byte	89
	.byte	11
	.byte	87
	.byte	11
	.byte	0
	.byte	0
	.byte	17
	.byte	11
	.byte	1
	.byte	85
	.byte	23
	.byte	49
	.byte	19
	.byte	0
	.byte	0
	.byte	18
	.byte	52
	.byte	0
	.byte	2
	.byte	23
	.byte	49
	.byte	19
	.byte	0
	.byte	0
	.byte	19
	.byte	29
	.byte	0
	.byte	49
	.byte	19
	.byte	85
	.byte	23
	.byte	88
	.byte	11
	.byte	89
	.byte	11
	.byte	87
	.byte	11
	.byte	0
	.byte	0
	.byte	20
	.byte	11
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	0
	.byte	0
	.byte	21
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
	.byte	22
	.byte	11
	.byte	1
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	49
	.byte	19
	.byte	0
	.byte	0
	.byte	23
	.byte	52
	.byte	0
	.byte	2
	.byte	24
	.byte	49
	.byte	19
	.byte	0
	.byte	0
	.byte	24
	.byte	29
	.byte	0
	.byte	49
	.byte	19
	.byte	17
	.byte	1
	.byte	18
	.byte	6
	.byte	88
	.byte	11
	.byte	89
	.byte	11
	.byte	87
	.byte	11
	.byte	0
	.byte	0
	.byte	25
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
	.byte	26
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
	.byte	27
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
	.byte	28
	.byte	15
	.byte	0
	.byte	73
	.byte	19
	.byte	51
	.byte	6
	.byte	0
	.byte	0
	.byte	29
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
	.byte	30
	.byte	47
	.byte	0
	.byte	73
	.byte	19
	.byte	3
	.byte	14
	.byte	0
	.byte	0
	.byte	31
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
	.byte	32
	.byte	11
	.byte	0
	.byte	0
	.byte	32
	.byte	5
	.byte	0
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
	.byte	33
	.byte	11
	.byte	1
	.byte	0
	.byte	0
	.byte	34
	.byte	52
	.byte	0
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
	.byte	35
	.byte	46
	.byte	1
	.byte	110
	.byte	14
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	5
	.byte	73
	.byte	19
	.byte	32
	.byte	11
	.byte	0
	.byte	0
	.byte	36
	.byte	5
	.byte	0
	.byte	3
	.byte	14
	.byte	58
	.byte	11
	.byte	59
	.byte	5
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	37
	.byte	51
	.byte	1
	.byte	21
	.byte	19
	.byte	0
	.byte	0
	.byte	38
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
	.byte	39
	.byte	25
	.byte	1
	.byte	22
	.byte	11
	.byte	0
	.byte	0
	.byte	40
	.byte	25
	.byte	1
	.byte	0
	.byte	0
	.byte	41
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
	.byte	42
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
	.byte	43
	.byte	46
	.byte	1
	.byte	71
	.byte	19
	.byte	32
	.byte	11
	.byte	0
	.byte	0
	.byte	44
	.byte	21
	.byte	1
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	45
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
	.byte	46
	.byte	1
	.byte	1
	.byte	73
	.byte	19
	.byte	0
	.byte	0
	.byte	47
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
	.byte	48
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
	.long	.Ldebug_ranges4
	.byte	2
	.long	.Linfo_string3
	.byte	3
	.quad	.Lfunc_begin0
	.long	.Lfunc_end0-.Lfunc_begin0
	.byte	1
	.byte	87
	.long	.Linfo_string77
	.long	.Linfo_string78
	.byte	1
	.byte	61


	.byte	4
	.byte	1
	.byte	85
	.byte	1
	.byte	61
	.long	2793
	.byte	0
	.byte	5
	.long	.Linfo_string11
	.byte	16
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string4
	.long	978
	.byte	8
	.byte	0
	.byte	3
	.byte	7
	.long	.Linfo_string12
	.long	.Linfo_string13
	.byte	1
	.byte	18
	.long	1039

	.byte	8
	.long	2656
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string8
	.byte	8
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string6
	.long	1017
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	2
	.long	.Linfo_string76
	.byte	9
	.quad	.Lfunc_begin1
	.long	.Lfunc_end1-.Lfunc_begin1
	.byte	1
	.byte	87
	.long	.Linfo_string79
	.long	.Linfo_string80
	.byte	1
	.byte	31
	.long	2727

	.byte	10
	.byte	1
	.byte	85
	.long	.Linfo_string31
	.byte	1
	.byte	31
	.long	3095
	.byte	11
	.long	.Ldebug_loc0
	.long	.Linfo_string150
	.byte	1
	.byte	31
	.long	3108
	.byte	12
	.long	2669
	.quad	.Lfunc_begin1
	.long	.Ltmp2-.Lfunc_begin1
	.byte	1
	.byte	32
	.byte	31
	.byte	13
	.byte	1
	.byte	85
	.long	2675
	.byte	0
	.byte	14
	.long	.Ldebug_ranges0
	.byte	15
	.long	.Ldebug_loc1
	.long	.Linfo_string16
	.byte	8
	.byte	1
	.byte	32
	.long	1039
	.byte	16
	.long	1098
	.long	.Ldebug_ranges1
	.byte	1
	.byte	32
	.byte	22
	.byte	17
	.long	.Ldebug_ranges1
	.long	1134
	.byte	18
	.long	.Ldebug_loc3
	.long	1135
	.byte	17
	.long	.Ldebug_ranges1
	.long	1147
	.byte	18
	.long	.Ldebug_loc2
	.long	1148
	.byte	19
	.long	1364
	.long	.Ldebug_ranges2
	.byte	3
	.byte	180
	.byte	28
	.byte	0
	.byte	0
	.byte	0
	.byte	20
	.quad	.Ltmp14
	.long	.Ltmp21-.Ltmp14
	.byte	21
	.byte	1
	.byte	90
	.long	.Linfo_string152
	.byte	8
	.byte	1
	.byte	32
	.long	2643
	.byte	20
	.quad	.Ltmp14
	.long	.Ltmp21-.Ltmp14
	.byte	15
	.long	.Ldebug_loc4
	.long	.Linfo_string16
	.byte	8
	.byte	1
	.byte	33
	.long	1263
	.byte	12
	.long	1902
	.quad	.Ltmp17
	.long	.Ltmp18-.Ltmp17
	.byte	1
	.byte	34
	.byte	30
	.byte	13
	.byte	1
	.byte	83
	.long	1928
	.byte	0
	.byte	12
	.long	1183
	.quad	.Ltmp19
	.long	.Ltmp20-.Ltmp19
	.byte	1
	.byte	33
	.byte	22
	.byte	22
	.quad	.Ltmp19
	.long	.Ltmp20-.Ltmp19
	.long	1219
	.byte	23
	.byte	21
	.byte	123
	.byte	0
	.byte	17
	.byte	4
	.byte	113
	.byte	0
	.byte	30
	.byte	28
	.byte	17
	.byte	124
	.byte	27
	.byte	17
	.byte	4
	.byte	30
	.byte	17
	.byte	4
	.byte	116
	.byte	0
	.byte	34
	.byte	34
	.byte	159
	.long	1220
	.byte	22
	.quad	.Ltmp19
	.long	.Ltmp20-.Ltmp19
	.long	1232
	.byte	23
	.byte	6
	.byte	116
	.byte	0
	.byte	120
	.byte	0
	.byte	34
	.byte	159
	.long	1233
	.byte	24
	.long	1415
	.quad	.Ltmp19
	.long	.Ltmp20-.Ltmp19
	.byte	3
	.byte	180
	.byte	28
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	20
	.quad	.Ltmp22
	.long	.Ltmp32-.Ltmp22
	.byte	15
	.long	.Ldebug_loc5
	.long	.Linfo_string16
	.byte	8
	.byte	1
	.byte	38
	.long	1263
	.byte	16
	.long	1183
	.long	.Ldebug_ranges3
	.byte	1
	.byte	38
	.byte	22
	.byte	17
	.long	.Ldebug_ranges3
	.long	1219
	.byte	18
	.long	.Ldebug_loc7
	.long	1220
	.byte	17
	.long	.Ldebug_ranges3
	.long	1232
	.byte	18
	.long	.Ldebug_loc6
	.long	1233
	.byte	19
	.long	1415
	.long	.Ldebug_ranges3
	.byte	3
	.byte	180
	.byte	28
	.byte	0
	.byte	0
	.byte	0
	.byte	20
	.quad	.Ltmp26
	.long	.Ltmp29-.Ltmp26
	.byte	21
	.byte	12
	.byte	112
	.byte	0
	.byte	17
	.byte	4
	.byte	27
	.byte	17
	.byte	4
	.byte	30
	.byte	116
	.byte	0
	.byte	34
	.byte	159
	.long	.Linfo_string153
	.byte	8
	.byte	1
	.byte	38
	.long	2760
	.byte	12
	.long	2041
	.quad	.Ltmp26
	.long	.Ltmp27-.Ltmp26
	.byte	1
	.byte	39
	.byte	46
	.byte	13
	.byte	1
	.byte	82
	.long	2057
	.byte	13
	.byte	12
	.byte	112
	.byte	0
	.byte	17
	.byte	4
	.byte	27
	.byte	17
	.byte	4
	.byte	30
	.byte	116
	.byte	0
	.byte	34
	.byte	159
	.long	2068
	.byte	12
	.long	1996
	.quad	.Ltmp26
	.long	.Ltmp27-.Ltmp26
	.byte	6
	.byte	39
	.byte	17
	.byte	13
	.byte	1
	.byte	82
	.long	2012
	.byte	0
	.byte	0
	.byte	12
	.long	1941
	.quad	.Ltmp27
	.long	.Ltmp28-.Ltmp27
	.byte	1
	.byte	39
	.byte	24
	.byte	13
	.byte	1
	.byte	82
	.long	1967
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	25
	.quad	.Lfunc_begin2
	.long	.Lfunc_end2-.Lfunc_begin2
	.byte	1
	.byte	87
	.long	.Linfo_string81
	.byte	1
	.byte	46
	.long	2786

	.byte	20
	.quad	.Ltmp34
	.long	.Ltmp43-.Ltmp34
	.byte	21
	.byte	2
	.byte	145
	.byte	48
	.long	.Linfo_string4
	.byte	8
	.byte	1
	.byte	47
	.long	3147
	.byte	20
	.quad	.Ltmp35
	.long	.Ltmp43-.Ltmp35
	.byte	21
	.byte	2
	.byte	145
	.byte	16
	.long	.Linfo_string154
	.byte	8
	.byte	1
	.byte	48
	.long	932
	.byte	20
	.quad	.Ltmp36
	.long	.Ltmp43-.Ltmp36
	.byte	15
	.long	.Ldebug_loc8
	.long	.Linfo_string153
	.byte	4
	.byte	1
	.byte	49
	.long	2727
	.byte	20
	.quad	.Ltmp36
	.long	.Ltmp43-.Ltmp36
	.byte	15
	.long	.Ldebug_loc9
	.long	.Linfo_string145
	.byte	4
	.byte	1
	.byte	50
	.long	2727
	.byte	20
	.quad	.Ltmp36
	.long	.Ltmp43-.Ltmp36
	.byte	15
	.long	.Ldebug_loc10
	.long	.Linfo_string155
	.byte	4
	.byte	1
	.byte	51
	.long	2786
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string148
	.byte	32
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string145
	.long	82
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string146
	.long	1017
	.byte	8
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string147
	.long	2727
	.byte	4
	.byte	24
	.byte	3
	.byte	0
	.byte	0
	.byte	26
	.long	.Linfo_string10
	.byte	16
	.byte	8
	.byte	27
	.long	.Linfo_string5
	.long	1008
	.byte	8
	.byte	0
	.byte	27
	.long	.Linfo_string9
	.long	1017
	.byte	8
	.byte	8
	.byte	0
	.byte	28
	.long	124
	.long	0
	.byte	29
	.long	.Linfo_string7
	.byte	7
	.byte	8
	.byte	2
	.long	.Linfo_string14
	.byte	2
	.long	.Linfo_string15
	.byte	2
	.long	.Linfo_string16
	.byte	5
	.long	.Linfo_string29
	.byte	16
	.byte	1
	.byte	8
	.byte	30
	.long	124
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string18
	.long	1329
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string23
	.long	2630
	.byte	8
	.byte	8
	.byte	3
	.byte	6
	.long	.Linfo_string25
	.long	1624
	.byte	1
	.byte	16
	.byte	3
	.byte	0
	.byte	2
	.long	.Linfo_string38
	.byte	31
	.long	.Linfo_string39
	.long	.Linfo_string40
	.byte	3
	.byte	157
	.long	1702
	.byte	1
	.byte	30
	.long	124
	.long	.Linfo_string17
	.byte	32
	.long	.Linfo_string31
	.byte	3
	.byte	157
	.long	2714
	.byte	33
	.byte	34
	.long	.Linfo_string18
	.byte	8
	.byte	3
	.byte	161
	.long	1329
	.byte	33
	.byte	34
	.long	.Linfo_string23
	.byte	8
	.byte	3
	.byte	162
	.long	2630
	.byte	33
	.byte	34
	.long	.Linfo_string48
	.byte	8
	.byte	3
	.byte	167
	.long	1017
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string59
	.byte	31
	.long	.Linfo_string60
	.long	.Linfo_string61
	.byte	3
	.byte	157
	.long	1799
	.byte	1
	.byte	30
	.long	2727
	.long	.Linfo_string17
	.byte	32
	.long	.Linfo_string31
	.byte	3
	.byte	157
	.long	2773
	.byte	33
	.byte	34
	.long	.Linfo_string18
	.byte	8
	.byte	3
	.byte	161
	.long	1467
	.byte	33
	.byte	34
	.long	.Linfo_string23
	.byte	8
	.byte	3
	.byte	162
	.long	2747
	.byte	33
	.byte	34
	.long	.Linfo_string48
	.byte	8
	.byte	3
	.byte	167
	.long	1017
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string65
	.byte	16
	.byte	1
	.byte	8
	.byte	30
	.long	2727
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string18
	.long	1467
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string23
	.long	2747
	.byte	8
	.byte	8
	.byte	3
	.byte	6
	.long	.Linfo_string25
	.long	1642
	.byte	1
	.byte	16
	.byte	3
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string18
	.byte	2
	.long	.Linfo_string19
	.byte	5
	.long	.Linfo_string22
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	124
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string20
	.long	2617
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	2
	.long	.Linfo_string32
	.byte	35
	.long	.Linfo_string33
	.long	.Linfo_string34
	.byte	2
	.short	1719
	.long	2687
	.byte	1
	.byte	30
	.long	124
	.long	.Linfo_string17
	.byte	36
	.long	.Linfo_string31
	.byte	2
	.short	1719
	.long	2694
	.byte	36
	.long	.Linfo_string37
	.byte	2
	.short	1719
	.long	2694
	.byte	0
	.byte	35
	.long	.Linfo_string54
	.long	.Linfo_string55
	.byte	2
	.short	1719
	.long	2687
	.byte	1
	.byte	30
	.long	2727
	.long	.Linfo_string17
	.byte	36
	.long	.Linfo_string31
	.byte	2
	.short	1719
	.long	2734
	.byte	36
	.long	.Linfo_string37
	.byte	2
	.short	1719
	.long	2734
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string57
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2727
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string20
	.long	2747
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string89
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2819
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string20
	.long	2826
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string127
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2258
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string20
	.long	3000
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string97
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2839
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string20
	.long	2846
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string133
	.byte	16
	.byte	1
	.byte	8
	.byte	30
	.long	2819
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string20
	.long	3026
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string26
	.byte	5
	.long	.Linfo_string28
	.byte	0
	.byte	1
	.byte	1
	.byte	30
	.long	2643
	.long	.Linfo_string17
	.byte	0
	.byte	5
	.long	.Linfo_string64
	.byte	0
	.byte	1
	.byte	1
	.byte	30
	.long	2760
	.long	.Linfo_string17
	.byte	0
	.byte	5
	.long	.Linfo_string122
	.byte	0
	.byte	1
	.byte	1
	.byte	30
	.long	2987
	.long	.Linfo_string17
	.byte	0
	.byte	5
	.long	.Linfo_string138
	.byte	0
	.byte	1
	.byte	1
	.byte	30
	.long	3065
	.long	.Linfo_string17
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string41
	.byte	5
	.long	.Linfo_string46
	.byte	8
	.byte	1
	.byte	8
	.byte	37
	.long	1715
	.byte	38
	.long	2707
	.byte	8
	.byte	0

	.byte	39
	.byte	0
	.byte	27
	.long	.Linfo_string43
	.long	1750
	.byte	8
	.byte	0
	.byte	0
	.byte	40
	.byte	27
	.long	.Linfo_string44
	.long	1768
	.byte	8
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string43
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2643
	.long	.Linfo_string17
	.byte	0
	.byte	5
	.long	.Linfo_string44
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2643
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string45
	.long	2643
	.byte	8
	.byte	0
	.byte	1
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string63
	.byte	8
	.byte	1
	.byte	8
	.byte	37
	.long	1812
	.byte	38
	.long	2707
	.byte	8
	.byte	0

	.byte	39
	.byte	0
	.byte	27
	.long	.Linfo_string43
	.long	1847
	.byte	8
	.byte	0
	.byte	0
	.byte	40
	.byte	27
	.long	.Linfo_string44
	.long	1865
	.byte	8
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string43
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2760
	.long	.Linfo_string17
	.byte	0
	.byte	5
	.long	.Linfo_string44
	.byte	8
	.byte	1
	.byte	8
	.byte	30
	.long	2760
	.long	.Linfo_string17
	.byte	6
	.long	.Linfo_string45
	.long	2760
	.byte	8
	.byte	0
	.byte	1
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string49
	.byte	35
	.long	.Linfo_string50
	.long	.Linfo_string51
	.byte	4
	.short	490
	.long	1017
	.byte	1
	.byte	30
	.long	1017
	.long	.Linfo_string17
	.byte	36
	.long	.Linfo_string52
	.byte	4
	.short	490
	.long	1017
	.byte	0
	.byte	35
	.long	.Linfo_string74
	.long	.Linfo_string75
	.byte	4
	.short	490
	.long	2727
	.byte	1
	.byte	30
	.long	2727
	.long	.Linfo_string17
	.byte	36
	.long	.Linfo_string52
	.byte	4
	.short	490
	.long	2727
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string67
	.byte	2
	.long	.Linfo_string68
	.byte	2
	.long	.Linfo_string69
	.byte	31
	.long	.Linfo_string70
	.long	.Linfo_string71
	.byte	5
	.byte	105
	.long	2727
	.byte	1
	.byte	32
	.long	.Linfo_string31
	.byte	5
	.byte	105
	.long	2727
	.byte	32
	.long	.Linfo_string37
	.byte	5
	.byte	105
	.long	2727
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string72
	.byte	31
	.long	.Linfo_string73
	.long	.Linfo_string71
	.byte	6
	.byte	38
	.long	2727
	.byte	1
	.byte	32
	.long	.Linfo_string31
	.byte	6
	.byte	38
	.long	2727
	.byte	32
	.long	.Linfo_string37
	.byte	6
	.byte	38
	.long	2760
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string78
	.byte	2
	.long	.Linfo_string83
	.byte	5
	.long	.Linfo_string143
	.byte	24
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string84
	.long	2806
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string130
	.long	3013
	.byte	8
	.byte	8
	.byte	3
	.byte	6
	.long	.Linfo_string141
	.long	2687
	.byte	1
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string142
	.long	2687
	.byte	1
	.byte	17
	.byte	3
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string130
	.byte	5
	.long	.Linfo_string139
	.byte	24
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string131
	.long	1587
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string134
	.long	2727
	.byte	4
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string135
	.long	2727
	.byte	4
	.byte	20
	.byte	3
	.byte	6
	.long	.Linfo_string136
	.long	1678
	.byte	1
	.byte	24
	.byte	3
	.byte	0
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string85
	.byte	5
	.long	.Linfo_string128
	.byte	16
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string86
	.long	1497
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string90
	.long	1527
	.byte	8
	.byte	8
	.byte	3
	.byte	0
	.byte	2
	.long	.Linfo_string91
	.byte	5
	.long	.Linfo_string125
	.byte	16
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string92
	.long	2279
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string124
	.byte	16
	.byte	3
	.byte	8
	.byte	37
	.long	2292
	.byte	38
	.long	2707
	.byte	8
	.byte	0

	.byte	40
	.byte	27
	.long	.Linfo_string93
	.long	2327
	.byte	8
	.byte	0
	.byte	0
	.byte	39
	.byte	0
	.byte	27
	.long	.Linfo_string123
	.long	2372
	.byte	8
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string93
	.byte	16
	.byte	3
	.byte	8
	.byte	6
	.long	.Linfo_string94
	.long	1557
	.byte	8
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string98
	.long	2859
	.byte	8
	.byte	8
	.byte	3
	.byte	6
	.long	.Linfo_string120
	.long	1660
	.byte	1
	.byte	16
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string123
	.byte	16
	.byte	3
	.byte	8
	.byte	6
	.long	.Linfo_string45
	.long	2901
	.byte	2
	.byte	8
	.byte	3
	.byte	0
	.byte	0
	.byte	0
	.byte	41
	.long	.Linfo_string101
	.byte	0
	.byte	1
	.byte	1
	.byte	5
	.long	.Linfo_string117
	.byte	24
	.byte	1
	.byte	8
	.byte	6
	.long	.Linfo_string105
	.long	2436
	.byte	4
	.byte	16
	.byte	3
	.byte	6
	.long	.Linfo_string111
	.long	2908
	.byte	8
	.byte	0
	.byte	3
	.byte	0
	.byte	5
	.long	.Linfo_string110
	.byte	8
	.byte	1
	.byte	4
	.byte	6
	.long	.Linfo_string106
	.long	2727
	.byte	4
	.byte	0
	.byte	3
	.byte	6
	.long	.Linfo_string107
	.long	2901
	.byte	2
	.byte	4
	.byte	3
	.byte	6
	.long	.Linfo_string109
	.long	2901
	.byte	2
	.byte	6
	.byte	3
	.byte	0
	.byte	0
	.byte	2
	.long	.Linfo_string99
	.byte	5
	.long	.Linfo_string104
	.byte	1
	.byte	1
	.byte	1
	.byte	37
	.long	2500
	.byte	38
	.long	2819
	.byte	1
	.byte	0

	.byte	39
	.byte	0
	.byte	27
	.long	.Linfo_string100
	.long	2536
	.byte	1
	.byte	0
	.byte	0
	.byte	39
	.byte	1
	.byte	27
	.long	.Linfo_string103
	.long	2575
	.byte	1
	.byte	0
	.byte	0
	.byte	0
	.byte	5
	.long	.Linfo_string100
	.byte	1
	.byte	1
	.byte	1
	.byte	30
	.long	2839
	.long	.Linfo_string17
	.byte	30
	.long	2395
	.long	.Linfo_string102
	.byte	6
	.long	.Linfo_string45
	.long	2839
	.byte	1
	.byte	1
	.byte	1
	.byte	0
	.byte	5
	.long	.Linfo_string103
	.byte	1
	.byte	1
	.byte	1
	.byte	30
	.long	2839
	.long	.Linfo_string17
	.byte	30
	.long	2395
	.long	.Linfo_string102
	.byte	6
	.long	.Linfo_string45
	.long	2395
	.byte	1
	.byte	1
	.byte	1
	.byte	0
	.byte	0
	.byte	0
	.byte	0
	.byte	42
	.long	124
	.long	.Linfo_string21
	.long	0
	.byte	42
	.long	124
	.long	.Linfo_string24
	.long	0
	.byte	42
	.long	124
	.long	.Linfo_string27
	.long	0
	.byte	42
	.long	82
	.long	.Linfo_string30
	.long	0
	.byte	43
	.long	102
	.byte	1
	.byte	32
	.long	.Linfo_string31
	.byte	1
	.byte	18
	.long	2656
	.byte	0
	.byte	29
	.long	.Linfo_string35
	.byte	2
	.byte	1
	.byte	42
	.long	1329
	.long	.Linfo_string36
	.long	0
	.byte	29
	.long	.Linfo_string42
	.byte	7
	.byte	8
	.byte	42
	.long	1039
	.long	.Linfo_string47
	.long	0
	.byte	29
	.long	.Linfo_string53
	.byte	7
	.byte	4
	.byte	42
	.long	1467
	.long	.Linfo_string58
	.long	0
	.byte	42
	.long	2727
	.long	.Linfo_string56
	.long	0
	.byte	42
	.long	2727
	.long	.Linfo_string62
	.long	0
	.byte	42
	.long	1263
	.long	.Linfo_string66
	.long	0
	.byte	29
	.long	.Linfo_string82
	.byte	5
	.byte	4
	.byte	42
	.long	2093
	.long	.Linfo_string144
	.long	0
	.byte	42
	.long	2220
	.long	.Linfo_string129
	.long	0
	.byte	29
	.long	.Linfo_string87
	.byte	7
	.byte	1
	.byte	42
	.long	2819
	.long	.Linfo_string88
	.long	0
	.byte	29
	.long	.Linfo_string95
	.byte	7
	.byte	0
	.byte	42
	.long	2839
	.long	.Linfo_string96
	.long	0
	.byte	42
	.long	2872
	.long	.Linfo_string119
	.long	0
	.byte	44
	.long	2487
	.byte	8
	.long	1557
	.byte	8
	.long	2888
	.byte	0
	.byte	42
	.long	2403
	.long	.Linfo_string118
	.long	0
	.byte	29
	.long	.Linfo_string108
	.byte	7
	.byte	2
	.byte	26
	.long	.Linfo_string116
	.byte	16
	.byte	8
	.byte	27
	.long	.Linfo_string20
	.long	2938
	.byte	8
	.byte	0
	.byte	27
	.long	.Linfo_string113
	.long	2954
	.byte	8
	.byte	8
	.byte	0
	.byte	28
	.long	2947
	.long	0
	.byte	45
	.long	.Linfo_string112
	.byte	0
	.byte	1
	.byte	42
	.long	2967
	.long	.Linfo_string115
	.long	0
	.byte	46
	.long	1017
	.byte	47
	.long	2980
	.byte	0
	.byte	6
	.byte	0
	.byte	48
	.long	.Linfo_string114
	.byte	8
	.byte	7
	.byte	42
	.long	2839
	.long	.Linfo_string121
	.long	0
	.byte	42
	.long	2258
	.long	.Linfo_string126
	.long	0
	.byte	42
	.long	2156
	.long	.Linfo_string140
	.long	0
	.byte	26
	.long	.Linfo_string132
	.byte	16
	.byte	8
	.byte	27
	.long	.Linfo_string5
	.long	3056
	.byte	8
	.byte	0
	.byte	27
	.long	.Linfo_string9
	.long	1017
	.byte	8
	.byte	8
	.byte	0
	.byte	28
	.long	2819
	.long	0
	.byte	26
	.long	.Linfo_string137
	.byte	16
	.byte	8
	.byte	27
	.long	.Linfo_string5
	.long	3056
	.byte	8
	.byte	0
	.byte	27
	.long	.Linfo_string9
	.long	1017
	.byte	8
	.byte	8
	.byte	0
	.byte	42
	.long	932
	.long	.Linfo_string149
	.long	0
	.byte	26
	.long	.Linfo_string151
	.byte	16
	.byte	8
	.byte	27
	.long	.Linfo_string5
	.long	3138
	.byte	8
	.byte	0
	.byte	27
	.long	.Linfo_string9
	.long	1017
	.byte	8
	.byte	8
	.byte	0
	.byte	28
	.long	2727
	.long	0
	.byte	46
	.long	124
	.byte	47
	.long	2980
	.byte	0
	.byte	3
	.byte	0
	.byte	0
.Ldebug_info_end0:
	.section	.text._RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind,"ax",@progbits
.Lsec_end0:
	.section	".text._ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E","ax",@progbits
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
	.quad	.Ltmp2
	.quad	.Ltmp4
	.quad	.Ltmp6
	.quad	.Ltmp21
	.quad	0
	.quad	0
.Ldebug_ranges1:
	.quad	.Ltmp2
	.quad	.Ltmp3
	.quad	.Ltmp6
	.quad	.Ltmp7
	.quad	.Ltmp8
	.quad	.Ltmp11
	.quad	0
	.quad	0
.Ldebug_ranges2:
	.quad	.Ltmp2
	.quad	.Ltmp3
	.quad	.Ltmp8
	.quad	.Ltmp10
	.quad	0
	.quad	0
.Ldebug_ranges3:
	.quad	.Ltmp22
	.quad	.Ltmp23
	.quad	.Ltmp29
	.quad	.Ltmp31
	.quad	0
	.quad	0
.Ldebug_ranges4:
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
	.asciz	"iterators.rs/@/iterators.53ec9449411a796f-cgu.0"
.Linfo_string2:
	.asciz	"."
.Linfo_string3:
	.asciz	"iterators"
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
	.asciz	"&mut [iterators::Layer]"
.Linfo_string11:
	.asciz	"Layers"
.Linfo_string12:
	.asciz	"_ZN9iterators6Layers4each17h5edc947d9c2214abE"
.Linfo_string13:
	.asciz	"each"
.Linfo_string14:
	.asciz	"core"
.Linfo_string15:
	.asciz	"slice"
.Linfo_string16:
	.asciz	"iter"
.Linfo_string17:
	.asciz	"T"
.Linfo_string18:
	.asciz	"ptr"
.Linfo_string19:
	.asciz	"non_null"
.Linfo_string20:
	.asciz	"pointer"
.Linfo_string21:
	.asciz	"*const iterators::Layer"
.Linfo_string22:
	.asciz	"NonNull<iterators::Layer>"
.Linfo_string23:
	.asciz	"end_or_len"
.Linfo_string24:
	.asciz	"*mut iterators::Layer"
.Linfo_string25:
	.asciz	"_marker"
.Linfo_string26:
	.asciz	"marker"
.Linfo_string27:
	.asciz	"&mut iterators::Layer"
.Linfo_string28:
	.asciz	"PhantomData<&mut iterators::Layer>"
.Linfo_string29:
	.asciz	"IterMut<iterators::Layer>"
.Linfo_string30:
	.asciz	"&mut iterators::Layers"
.Linfo_string31:
	.asciz	"self"
.Linfo_string32:
	.asciz	"{impl#16}"
.Linfo_string33:
	.asciz	"_ZN78_$LT$core..ptr..non_null..NonNull$LT$T$GT$$u20$as$u20$core..cmp..PartialEq$GT$2eq17h898227a1facc44ceE"
.Linfo_string34:
	.asciz	"eq<iterators::Layer>"
.Linfo_string35:
	.asciz	"bool"
.Linfo_string36:
	.asciz	"&core::ptr::non_null::NonNull<iterators::Layer>"
.Linfo_string37:
	.asciz	"other"
.Linfo_string38:
	.asciz	"{impl#179}"
.Linfo_string39:
	.asciz	"_ZN94_$LT$core..slice..iter..IterMut$LT$T$GT$$u20$as$u20$core..iter..traits..iterator..Iterator$GT$4next17hd5e764dc78e039a8E"
.Linfo_string40:
	.asciz	"next<iterators::Layer>"
.Linfo_string41:
	.asciz	"option"
.Linfo_string42:
	.asciz	"u64"
.Linfo_string43:
	.asciz	"None"
.Linfo_string44:
	.asciz	"Some"
.Linfo_string45:
	.asciz	"__0"
.Linfo_string46:
	.asciz	"Option<&mut iterators::Layer>"
.Linfo_string47:
	.asciz	"&mut core::slice::iter::IterMut<iterators::Layer>"
.Linfo_string48:
	.asciz	"len"
.Linfo_string49:
	.asciz	"hint"
.Linfo_string50:
	.asciz	"_ZN4core4hint9black_box17h52d827cb0911d7ccE"
.Linfo_string51:
	.asciz	"black_box<usize>"
.Linfo_string52:
	.asciz	"dummy"
.Linfo_string53:
	.asciz	"u32"
.Linfo_string54:
	.asciz	"_ZN78_$LT$core..ptr..non_null..NonNull$LT$T$GT$$u20$as$u20$core..cmp..PartialEq$GT$2eq17hc831f2feebfeac35E"
.Linfo_string55:
	.asciz	"eq<u32>"
.Linfo_string56:
	.asciz	"*const u32"
.Linfo_string57:
	.asciz	"NonNull<u32>"
.Linfo_string58:
	.asciz	"&core::ptr::non_null::NonNull<u32>"
.Linfo_string59:
	.asciz	"{impl#171}"
.Linfo_string60:
	.asciz	"_ZN91_$LT$core..slice..iter..Iter$LT$T$GT$$u20$as$u20$core..iter..traits..iterator..Iterator$GT$4next17h980a17776b7089aaE"
.Linfo_string61:
	.asciz	"next<u32>"
.Linfo_string62:
	.asciz	"&u32"
.Linfo_string63:
	.asciz	"Option<&u32>"
.Linfo_string64:
	.asciz	"PhantomData<&u32>"
.Linfo_string65:
	.asciz	"Iter<u32>"
.Linfo_string66:
	.asciz	"&mut core::slice::iter::Iter<u32>"
.Linfo_string67:
	.asciz	"ops"
.Linfo_string68:
	.asciz	"arith"
.Linfo_string69:
	.asciz	"{impl#3}"
.Linfo_string70:
	.asciz	"_RNvXs1_NtNtCsgEmfK2I1SDS_4core3ops5arithmNtB5_3Add3add"
.Linfo_string71:
	.asciz	"add"
.Linfo_string72:
	.asciz	"{impl#26}"
.Linfo_string73:
	.asciz	"_RNvXso_NtNtCsgEmfK2I1SDS_4core3ops5arithmINtB5_3AddRmE3add"
.Linfo_string74:
	.asciz	"_ZN4core4hint9black_box17h7f6da8c6e16862d6E"
.Linfo_string75:
	.asciz	"black_box<u32>"
.Linfo_string76:
	.asciz	"{impl#1}"
.Linfo_string77:
	.asciz	"_RNvCsfLfy6EI15iL_7___rustc17rust_begin_unwind"
.Linfo_string78:
	.asciz	"panic"
.Linfo_string79:
	.asciz	"_ZN54_$LT$iterators..Engine$u20$as$u20$iterators..Model$GT$7forward17h8f7a85da6de0f960E"
.Linfo_string80:
	.asciz	"forward"
.Linfo_string81:
	.asciz	"main"
.Linfo_string82:
	.asciz	"i32"
.Linfo_string83:
	.asciz	"panic_info"
.Linfo_string84:
	.asciz	"message"
.Linfo_string85:
	.asciz	"fmt"
.Linfo_string86:
	.asciz	"template"
.Linfo_string87:
	.asciz	"u8"
.Linfo_string88:
	.asciz	"*const u8"
.Linfo_string89:
	.asciz	"NonNull<u8>"
.Linfo_string90:
	.asciz	"args"
.Linfo_string91:
	.asciz	"rt"
.Linfo_string92:
	.asciz	"ty"
.Linfo_string93:
	.asciz	"Placeholder"
.Linfo_string94:
	.asciz	"value"
.Linfo_string95:
	.asciz	"()"
.Linfo_string96:
	.asciz	"*const ()"
.Linfo_string97:
	.asciz	"NonNull<()>"
.Linfo_string98:
	.asciz	"formatter"
.Linfo_string99:
	.asciz	"result"
.Linfo_string100:
	.asciz	"Ok"
.Linfo_string101:
	.asciz	"Error"
.Linfo_string102:
	.asciz	"E"
.Linfo_string103:
	.asciz	"Err"
.Linfo_string104:
	.asciz	"Result<(), core::fmt::Error>"
.Linfo_string105:
	.asciz	"options"
.Linfo_string106:
	.asciz	"flags"
.Linfo_string107:
	.asciz	"width"
.Linfo_string108:
	.asciz	"u16"
.Linfo_string109:
	.asciz	"precision"
.Linfo_string110:
	.asciz	"FormattingOptions"
.Linfo_string111:
	.asciz	"buf"
.Linfo_string112:
	.asciz	"dyn core::fmt::Write"
.Linfo_string113:
	.asciz	"vtable"
.Linfo_string114:
	.asciz	"__ARRAY_SIZE_TYPE__"
.Linfo_string115:
	.asciz	"&[usize; 6]"
.Linfo_string116:
	.asciz	"&mut dyn core::fmt::Write"
.Linfo_string117:
	.asciz	"Formatter"
.Linfo_string118:
	.asciz	"&mut core::fmt::Formatter"
.Linfo_string119:
	.asciz	"unsafe fn(core::ptr::non_null::NonNull<()>, &mut core::fmt::Formatter) -> core::result::Result<(), core::fmt::Error>"
.Linfo_string120:
	.asciz	"_lifetime"
.Linfo_string121:
	.asciz	"&()"
.Linfo_string122:
	.asciz	"PhantomData<&()>"
.Linfo_string123:
	.asciz	"Count"
.Linfo_string124:
	.asciz	"ArgumentType"
.Linfo_string125:
	.asciz	"Argument"
.Linfo_string126:
	.asciz	"*const core::fmt::rt::Argument"
.Linfo_string127:
	.asciz	"NonNull<core::fmt::rt::Argument>"
.Linfo_string128:
	.asciz	"Arguments"
.Linfo_string129:
	.asciz	"&core::fmt::Arguments"
.Linfo_string130:
	.asciz	"location"
.Linfo_string131:
	.asciz	"filename"
.Linfo_string132:
	.asciz	"*const str"
.Linfo_string133:
	.asciz	"NonNull<str>"
.Linfo_string134:
	.asciz	"line"
.Linfo_string135:
	.asciz	"col"
.Linfo_string136:
	.asciz	"_filename"
.Linfo_string137:
	.asciz	"&str"
.Linfo_string138:
	.asciz	"PhantomData<&str>"
.Linfo_string139:
	.asciz	"Location"
.Linfo_string140:
	.asciz	"&core::panic::location::Location"
.Linfo_string141:
	.asciz	"can_unwind"
.Linfo_string142:
	.asciz	"force_no_backtrace"
.Linfo_string143:
	.asciz	"PanicInfo"
.Linfo_string144:
	.asciz	"&core::panic::panic_info::PanicInfo"
.Linfo_string145:
	.asciz	"all"
.Linfo_string146:
	.asciz	"n_past"
.Linfo_string147:
	.asciz	"sum"
.Linfo_string148:
	.asciz	"Engine"
.Linfo_string149:
	.asciz	"&mut iterators::Engine"
.Linfo_string150:
	.asciz	"tokens"
.Linfo_string151:
	.asciz	"&[u32]"
.Linfo_string152:
	.asciz	"layer"
.Linfo_string153:
	.asciz	"token"
.Linfo_string154:
	.asciz	"engine"
.Linfo_string155:
	.asciz	"i"
	.ident	"rustc version 1.95.0 (59807616e 2026-04-14)"
	.section	".note.GNU-stack","",@progbits
	.section	.debug_line,"",@progbits
.Lline_table_start0:
