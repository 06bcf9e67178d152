// Parses expressions with the grammar of the first version, in one pass and without backtracking. A group in parentheses is arithmetic if
// it contains only arithmetic; any other group is a condition, after which neither an operator nor a filter may follow.
import type { Call, CompareOperator, Expression, MathOperator, Path } from './syntax-tree.ts'
import { TemplateSyntaxError } from './template-errors.ts'
import type { Source, Token } from './tokenize.ts'

const depthMax = 64
const compareOperators: ReadonlySet<string> = new Set(['==', '!=', '<=', '>=', '<', '>'])
const precedence: Readonly<Record<MathOperator, number>> = { '+': 1, '-': 1, '*': 2, '/': 2, '%': 2 }
const integerMax = 2n ** 63n - 1n

/** Reads the tokens of one tag. */
export class ExpressionParser {
  readonly #source: Source
  readonly #tokens: readonly Token[]
  #next = 0
  #depth = 0

  constructor(source: Source, tokens: readonly Token[]) {
    this.#source = source
    this.#tokens = tokens
  }

  /** A condition or a value, or a list with filters. */
  parseValue(): Expression {
    return this.#isSymbol('[') ? this.#parseFilters(this.#parseList()) : this.parseLogic()
  }

  /** What a loop iterates over. */
  parseContainer(): Expression {
    if (this.#isSymbol('[')) return this.#parseFilters(this.#parseList())
    return this.#parseFilters(this.#parseMath(this.#parseOperand(), 1))
  }

  parseLogic(): Expression {
    return this.#nested(() => {
      let left = this.#parseAnd()
      while (this.takeWord('or')) left = { is: 'logic', operator: 'or', left, right: this.#parseAnd() }
      return left
    })
  }

  takeWord(word: string): boolean {
    return this.#takeIf((token) => isWord(token, word))
  }

  takeSymbol(symbol: string): boolean {
    return this.#takeIf((token) => token.is === 'symbol' && token.text === symbol)
  }

  requireSymbol(symbol: string): void {
    if (!this.takeSymbol(symbol)) this.fail(`${symbol} is expected here`)
  }

  /** A name without members. */
  requireName(what: string): string {
    const token = this.#take()
    if (token.is !== 'path' || token.path.segments.length > 0) return this.fail(`${what} is expected here`, token)
    return token.path.name
  }

  takeString(): string | null {
    const token = this.#peek()
    if (token.is !== 'string') return null
    this.#next += 1
    return token.text
  }

  requireEnd(): void {
    if (this.#peek().is !== 'end') this.fail('the tag should end here')
  }

  isAtEnd(): boolean {
    return this.#peek().is === 'end'
  }

  fail(message: string, token: Token = this.#peek()): never {
    throw new TemplateSyntaxError(message, this.#source.locate(token.at))
  }

  /** A literal without filters, as default of a macro's parameter. */
  parseLiteral(): Expression & { is: 'literal' } {
    const literal = this.#parseOperand()
    return literal.is === 'literal' ? literal : this.fail('a text, a number, true or false is expected here')
  }

  #parseAnd(): Expression {
    let left = this.#parseNot()
    while (this.takeWord('and')) left = { is: 'logic', operator: 'and', left, right: this.#parseNot() }
    return left
  }

  #parseNot(): Expression {
    if (!this.takeWord('not')) return this.#parseCondition('any group')
    return { is: 'not', value: this.#parseCondition('arithmetic group') }
  }

  #parseCondition(groups: 'any group' | 'arithmetic group'): Expression {
    const start = this.#peek()
    const first = this.#parseOperand()
    if (first.is === 'group') {
      if (groups === 'any group') return first.value
      return this.fail('not cannot stand before a condition in parentheses: negate the condition itself', start)
    }
    const left = this.#parseSide(first)
    const isNegated = this.#isWordPair('not', 'in')
    if (isNegated) this.#next += 1
    if (this.takeWord('in')) return { is: 'in', left, right: this.#parseInContainer(), isNegated }
    return this.#parseComparison(left)
  }

  #parseInContainer(): Expression {
    if (this.#isSymbol('[')) return this.#parseFilters(this.#parseList())
    return this.#parseSide(this.#requireArithmetic(this.#parseOperand()))
  }

  #parseComparison(left: Expression): Expression {
    const token = this.#peek()
    if (token.is !== 'symbol' || !compareOperators.has(token.text)) return left
    this.#next += 1
    const right = this.#parseSide(this.#requireArithmetic(this.#parseOperand()))
    return { is: 'compare', operator: token.text as CompareOperator, left, right }
  }

  /** A text with filters, or arithmetic whose operands have filters. */
  #parseSide(first: Expression): Expression {
    if (first.is === 'literal' && typeof first.value === 'string') return this.#parseFilters(this.#parseConcat(first))
    if (this.#isSymbol('~')) return this.#parseFilters(this.#parseConcat(first))
    return this.#climb(this.#parseFilters(this.#parseMath(first, 1)), 1, () =>
      this.#parseFilters(this.#parseMath(this.#requireArithmetic(this.#parseOperand()), 1)),
    )
  }

  #parseConcat(first: Expression): Expression {
    const parts = [first]
    while (this.takeSymbol('~')) parts.push(this.#requireArithmetic(this.#parseOperand()))
    const wrong = parts.find((part) => !['literal', 'path', 'call'].includes(part.is))
    if (parts.length > 1 && wrong !== undefined) this.fail('~ joins texts, numbers, names and function calls')
    return parts.length === 1 ? first : { is: 'concat', parts }
  }

  /** Operands without filters. */
  #parseMath(first: Expression | Group, least: number): Expression {
    return this.#climb(this.#requireArithmetic(first), least, () => this.#requireNumeric(this.#parseOperand()))
  }

  #climb(first: Expression, least: number, operand: () => Expression): Expression {
    let left = first
    for (let operator = this.#peekMath(); operator !== null && precedence[operator] >= least; operator = this.#peekMath()) {
      this.#next += 1
      const right = this.#climb(operand(), precedence[operator] + 1, operand)
      left = { is: 'math', operator, left, right }
    }
    return left
  }

  #peekMath(): MathOperator | null {
    const token = this.#peek()
    return token.is === 'symbol' && token.text in precedence ? (token.text as MathOperator) : null
  }

  #requireArithmetic(operand: Expression | Group): Expression {
    return operand.is === 'group' ? this.fail('a condition in parentheses cannot be used as a value here') : operand
  }

  #requireNumeric(operand: Expression | Group): Expression {
    const value = this.#requireArithmetic(operand)
    return value.is === 'literal' && typeof value.value === 'string' ? this.fail('arithmetic with a text is not possible') : value
  }

  #parseOperand(): Expression | Group {
    const token = this.#take()
    if (token.is === 'string') return { is: 'literal', value: token.text }
    if (token.is === 'fraction') return { is: 'literal', value: Number(token.text) }
    if (token.is === 'integer') return this.#toInteger(token.text, token)
    if (token.is === 'path') return this.#parsePath(token.path, token)
    if (token.is === 'symbol' && token.text === '-') return this.#parseNegative(token)
    if (token.is === 'symbol' && token.text === '(') return this.#nested(() => this.#parseGroup(token))
    return this.fail('a value is expected here', token)
  }

  /** The sign must touch its number. */
  #parseNegative(sign: Token): Expression {
    const token = this.#take()
    if (token.at !== sign.at + 1) return this.fail('a value is expected here', sign)
    if (token.is === 'fraction') return { is: 'literal', value: -Number(token.text) }
    return token.is === 'integer' ? this.#toInteger(`-${token.text}`, token) : this.fail('a number is expected here', token)
  }

  #toInteger(text: string, token: Token): Expression {
    const value = BigInt(text)
    if (value > integerMax || value < -integerMax - 1n) return this.fail('the number is outside the range of 64-bit integers', token)
    return { is: 'literal', value }
  }

  #parseGroup(open: Token): Expression | Group {
    const value = this.parseLogic()
    this.requireSymbol(')')
    if (isArithmetic(value)) return value
    if (value.is === 'not') this.fail('not inside parentheses: write `not x` without parentheses around it', open)
    return { is: 'group', value }
  }

  #parsePath(path: Path, token: Token): Expression {
    const isPlain = path.segments.length === 0
    if (isPlain && /^(?:[tT]rue|[fF]alse)$/.test(path.name)) return { is: 'literal', value: path.name.toLowerCase() === 'true' }
    if (isPlain && reserved.has(path.name)) return this.fail(`${path.name} is not a name`, token)
    if (isPlain && this.takeSymbol('::')) return this.#parseMacroCall(path.name, token)
    if (isPlain && this.takeSymbol('(')) return { is: 'call', name: path.name, args: this.#parseArguments() }
    return this.takeWord('is') ? this.#parseTest(path) : path
  }

  #parseMacroCall(namespace: string, token: Token): Expression {
    if (namespace !== 'self') this.fail('only macros of this template exist: call them as self::name()', token)
    const name = this.requireName('the name of a macro')
    this.requireSymbol('(')
    return { is: 'macro', name, args: this.#parseArguments() }
  }

  #parseTest(path: Path): Expression {
    const isNegated = this.takeWord('not')
    const name = this.requireName('the name of a test')
    const args: Expression[] = []
    if (this.takeSymbol('(')) {
      do args.push(this.parseValue())
      while (this.takeSymbol(','))
      this.requireSymbol(')')
    }
    return { is: 'test', path, name, args, isNegated }
  }

  /** After the opening parenthesis. */
  #parseArguments(): ReadonlyMap<string, Expression> {
    const args = new Map<string, Expression>()
    while (!this.takeSymbol(')')) {
      const name = this.requireName('a named argument such as value=1')
      this.requireSymbol('=')
      args.set(name, this.parseValue())
      if (!this.takeSymbol(',') && !this.#isSymbol(')')) this.fail(', or ) is expected here')
    }
    return args
  }

  #parseFilters(value: Expression): Expression {
    const filters: Call[] = []
    while (this.takeSymbol('|')) {
      const name = this.requireName('the name of a filter')
      filters.push({ name, args: this.takeSymbol('(') ? this.#parseArguments() : new Map<string, Expression>() })
    }
    return filters.length === 0 ? value : { is: 'filtered', value, filters }
  }

  #parseList(): Expression {
    this.requireSymbol('[')
    const items: Expression[] = []
    while (!this.takeSymbol(']')) {
      if (this.#isSymbol('[')) this.fail('a list inside a list cannot be written: pass it as a parameter')
      items.push(this.parseLogic())
      if (!this.takeSymbol(',') && !this.#isSymbol(']')) this.fail(', or ] is expected here')
    }
    return { is: 'array', items }
  }

  #nested<T>(parse: () => T): T {
    this.#depth += 1
    if (this.#depth > depthMax) this.fail(`the expression is nested deeper than ${depthMax}`)
    const value = parse()
    this.#depth -= 1
    return value
  }

  #peek(ahead = 0): Token {
    return this.#tokens[this.#next + ahead] ?? (this.#tokens.at(-1) as Token)
  }

  #take(): Token {
    const token = this.#peek()
    if (token.is !== 'end') this.#next += 1
    return token
  }

  #takeIf(matches: (token: Token) => boolean): boolean {
    if (!matches(this.#peek())) return false
    this.#next += 1
    return true
  }

  #isSymbol(symbol: string): boolean {
    const token = this.#peek()
    return token.is === 'symbol' && token.text === symbol
  }

  #isWordPair(first: string, second: string): boolean {
    return isWord(this.#peek(), first) && isWord(this.#peek(1), second)
  }
}

/** A condition in parentheses; neither operator nor filter may follow. */
interface Group {
  readonly is: 'group'
  readonly value: Expression
}

const reserved: ReadonlySet<string> = new Set(['and', 'or', 'not', 'in', 'is'])

const isWord = (token: Token, word: string): boolean => token.is === 'path' && token.path.segments.length === 0 && token.path.name === word

/** Arithmetic without filters. */
function isArithmetic(value: Expression): boolean {
  if (value.is === 'literal') return typeof value.value !== 'string'
  if (value.is === 'math') return isArithmetic(value.left) && isArithmetic(value.right)
  return value.is === 'path' || value.is === 'call' || value.is === 'macro' || value.is === 'test'
}
