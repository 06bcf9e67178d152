// Parses a template into its syntax tree. Throws TemplateSyntaxError with line and column.
import { ExpressionParser } from './parse-expression.ts'
import { type Piece, splitTemplate } from './split-template.ts'
import type { Branch, Macro, Node, Position, Template } from './syntax-tree.ts'
import { TemplateSyntaxError } from './template-errors.ts'
import type { Source } from './tokenize.ts'

const depthMax = 64

export function parseTemplate(text: string): Template {
  const source = { text, locate: createLocator(text) }
  return new TemplateParser(source, splitTemplate(source)).parse()
}

/** Converts an offset to line and column; the starts of the lines are found once. */
function createLocator(text: string): (offset: number) => Position {
  let starts: number[] | null = null
  return (offset) => {
    starts ??= findLineStarts(text)
    let [low, high] = [0, starts.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if ((starts[middle] ?? 0) <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 }
  }
}

function findLineStarts(text: string): number[] {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return starts
}

/** A tag whose first word was read. */
interface Tag {
  readonly word: string
  readonly parser: ExpressionParser
  readonly at: Position
}

class TemplateParser {
  readonly #source: Source
  readonly #pieces: readonly Piece[]
  readonly #macros = new Map<string, Macro>()
  #next = 0
  #depth = 0

  constructor(source: Source, pieces: readonly Piece[]) {
    this.#source = source
    this.#pieces = pieces
  }

  parse(): Template {
    const { nodes, tag } = this.#parseNodes([])
    if (tag !== null) throw new TemplateSyntaxError(`${tag.word} closes nothing`, tag.at)
    return { nodes, macros: this.#macros }
  }

  /** Reads nodes up to one of the closing tags, or the end. */
  #parseNodes(closing: readonly string[]): { readonly nodes: Node[]; readonly tag: Tag | null } {
    this.#depth += 1
    const nodes: Node[] = []
    for (let piece = this.#pieces[this.#next]; piece !== undefined; piece = this.#pieces[this.#next]) {
      this.#next += 1
      if (piece.is === 'text') nodes.push(piece)
      else if (piece.is === 'output') nodes.push(this.#parseOutput(piece))
      else {
        const tag = this.#openTag(piece)
        if (closing.includes(tag.word) || closers.has(tag.word)) {
          this.#depth -= 1
          return { nodes, tag }
        }
        if (this.#depth > depthMax) throw new TemplateSyntaxError(`tags are nested deeper than ${depthMax}`, tag.at)
        const node = this.#parseTag(tag)
        if (node !== null) nodes.push(node)
      }
    }
    this.#depth -= 1
    return { nodes, tag: null }
  }

  #openTag({ tokens, at }: Exclude<Piece, { is: 'text' }>): Tag {
    const parser = new ExpressionParser(this.#source, tokens)
    return { word: parser.requireName('the name of a tag such as if, for or set'), parser, at }
  }

  #parseOutput({ tokens, at }: Exclude<Piece, { is: 'text' }>): Node {
    const parser = new ExpressionParser(this.#source, tokens)
    const value = parser.parseValue()
    parser.requireEnd()
    return { is: 'output', value, at }
  }

  #parseTag(tag: Tag): Node | null {
    switch (tag.word) {
      case 'if':
        return this.#parseIf(tag)
      case 'for':
        return this.#parseFor(tag)
      case 'set':
      case 'set_global':
        return parseSet(tag)
      case 'macro':
        return this.#parseMacro(tag)
      case 'break':
      case 'continue':
        tag.parser.requireEnd()
        return { is: tag.word, at: tag.at }
      case 'include':
        return { is: 'unsupported', what: 'include', at: tag.at }
      default:
        throw new TemplateSyntaxError(`${tag.word} is not a tag of templates`, tag.at)
    }
  }

  #parseIf({ parser, at }: Tag): Node {
    const branches: Branch[] = []
    let condition = parser.parseLogic()
    parser.requireEnd()
    for (;;) {
      const { nodes: body, tag } = this.#parseNodes(['elif', 'else', 'endif'])
      branches.push({ condition, body })
      if (tag?.word === 'elif') condition = tag.parser.parseLogic()
      tag?.parser.requireEnd()
      if (tag?.word === 'endif') return { is: 'if', branches, otherwise: [], at }
      if (tag?.word === 'else') return { is: 'if', branches, otherwise: this.#parseBlock('if', at, ['endif']).nodes, at }
      if (tag?.word !== 'elif') throw unclosed('if', 'endif', at, tag)
    }
  }

  #parseFor({ parser, at }: Tag): Node {
    const first = parser.requireName('the name of the loop variable')
    const second = parser.takeSymbol(',') ? parser.requireName('the name of the value') : null
    if (!parser.takeWord('in')) parser.fail('in is expected here')
    const container = parser.parseContainer()
    parser.requireEnd()
    const { nodes: body, tag } = this.#parseBlock('for', at, ['else', 'endfor'])
    const otherwise = tag.word === 'else' ? untrimEnd(this.#parseBlock('for', at, ['endfor']).nodes) : []
    return { is: 'for', key: second === null ? null : first, name: second ?? first, container, body, otherwise, at }
  }

  #parseBlock(word: string, at: Position, closing: readonly string[]): { readonly nodes: Node[]; readonly tag: Tag } {
    const { nodes, tag } = this.#parseNodes(closing)
    if (tag === null || !closing.includes(tag.word)) throw unclosed(word, closing.at(-1) ?? '', at, tag)
    tag.parser.requireEnd()
    return { nodes, tag }
  }

  /** Inside another tag the definition cannot be reached by calls; the first version fails when it renders it. */
  #parseMacro({ parser, at }: Tag): Node | null {
    const name = parser.requireName('the name of the macro')
    parser.requireSymbol('(')
    const parameters: Macro['parameters'][number][] = []
    while (!parser.takeSymbol(')')) {
      if (parameters.length > 0) parser.requireSymbol(',')
      const parameter = parser.requireName('the name of a parameter')
      parameters.push({ name: parameter, fallback: parser.takeSymbol('=') ? parser.parseLiteral().value : undefined })
    }
    parser.requireEnd()
    const { nodes: body, tag } = this.#parseNodes(['endmacro'])
    if (tag?.word !== 'endmacro') throw unclosed('macro', 'endmacro', at, tag)
    if (!tag.parser.isAtEnd()) tag.parser.requireName('the name of the macro')
    tag.parser.requireEnd()
    if (this.#depth > 1) return { is: 'unsupported', what: 'a macro definition inside another tag', at }
    this.#macros.set(name, { parameters, body })
    return null
  }
}

const closers: ReadonlySet<string> = new Set(['elif', 'else', 'endif', 'endfor', 'endmacro', 'endraw'])

/** As in the first version, `{%- endfor %}` does not remove whitespace of the else branch. */
function untrimEnd(nodes: readonly Node[]): Node[] {
  return nodes.map((node, index) =>
    index === nodes.length - 1 && node.is === 'text' ? { is: 'text', text: node.untrimmed ?? node.text } : node,
  )
}

function parseSet({ word, parser, at }: Tag): Node {
  const name = parser.requireName('the name of a variable')
  parser.requireSymbol('=')
  const value = parser.parseValue()
  parser.requireEnd()
  return { is: 'set', name, value, isGlobal: word === 'set_global', at }
}

function unclosed(word: string, closing: string, at: Position, tag: Tag | null): TemplateSyntaxError {
  if (tag !== null)
    return new TemplateSyntaxError(`${tag.word} is not expected here: ${word} of line ${at.line} ends with ${closing}`, tag.at)
  return new TemplateSyntaxError(`${word} is not closed by ${closing}`, at)
}
