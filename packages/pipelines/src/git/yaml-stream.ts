// A YAML stream as positions in its text: every node, every comment, and which value an entry or a line has. Pure.
import { Composer, type CST, type Document, isAlias, isCollection, isPair, isScalar, type ParsedNode, Parser } from 'yaml'

export interface StreamNode {
  readonly kind: 'scalar' | 'alias' | 'collection'
  /** Offsets of the value alone, without anchor, tag and comment. */
  readonly start: number
  readonly end: number
  readonly source: string
  /** What a scalar reads as. */
  readonly value: unknown
  /** Style of a scalar: PLAIN, QUOTE_SINGLE, QUOTE_DOUBLE, BLOCK_LITERAL, BLOCK_FOLDED. */
  readonly type: string | undefined
  readonly isKey: boolean
}

export interface StreamComment {
  readonly offset: number
  /** Counts from 1. */
  readonly line: number
  /** Without `#` and blanks around. */
  readonly text: string
  readonly isAlone: boolean
}

export interface ParsedStream {
  /** In order of the documents, depth first. */
  readonly nodes: readonly StreamNode[]
  readonly comments: readonly StreamComment[]
  /** Value of the first entry (pair, item or document) that begins on the line; of compact blocks the innermost. */
  entryOnLine(line: number): StreamNode | null
  /** The value that ends last before the offset on the same line, with nothing but commas and blanks between. */
  valueBefore(offset: number): StreamNode | null
}

interface Entry {
  readonly start: number
  readonly value: StreamNode
}

export function parseStream(text: string): ParsedStream | { readonly error: string; readonly line: number } {
  const lines = new Lines(text)
  try {
    const tokens = [...new Parser().parse(text)]
    const documents = [...new Composer({ uniqueKeys: false, logLevel: 'silent' }).compose(tokens)] as Document.Parsed[]
    const broken = documents.flatMap(({ errors }) => errors)[0]
    if (broken !== undefined) return { error: broken.message.split('\n')[0]!, line: lines.lineAt(broken.pos[0]) }
    const { nodes, entries } = collect(documents, text)
    return {
      nodes,
      comments: findComments(tokens, lines),
      entryOnLine: (line) => entries.filter(({ start }) => lines.lineAt(start) === line).reduce(innermost, null)?.value ?? null,
      valueBefore: (offset) => valueBefore(nodes, offset, lines),
    }
  } catch (error) {
    // Nesting beyond the stack.
    if (error instanceof RangeError) return { error: 'the file is nested too deeply', line: 1 }
    throw error
  }
}

/** Entries come outermost first: what follows a block collection on its first line (`- image: x`) is inside it. */
const innermost = (chosen: Entry | null, next: Entry): Entry => (chosen === null || isBlockCollection(chosen.value) ? next : chosen)

const isBlockCollection = ({ kind, source }: StreamNode): boolean => kind === 'collection' && !/^[[{]/.test(source)

function valueBefore(nodes: readonly StreamNode[], offset: number, lines: Lines): StreamNode | null {
  const line = lines.lineAt(offset)
  const ending = nodes.filter((node) => !node.isKey && !isBlockCollection(node) && node.end <= offset && lines.lineAt(node.end) === line)
  const last = ending.reduce<StreamNode | null>((best, node) => (best === null || node.end >= best.end ? node : best), null)
  return last !== null && /^[\s,]*$/.test(lines.text.slice(last.end, offset)) ? last : null
}

function collect(documents: readonly Document.Parsed[], text: string): { nodes: StreamNode[]; entries: Entry[] } {
  const nodes: StreamNode[] = []
  const entries: Entry[] = []
  const add = (node: ParsedNode, isKey: boolean): StreamNode => {
    const [start, end] = node.range
    const kind = isScalar(node) ? 'scalar' : isAlias(node) ? 'alias' : 'collection'
    const scalar = isScalar(node) ? { value: node.value, type: node.type } : { value: undefined, type: undefined }
    const found: StreamNode = { kind, start, end, source: text.slice(start, end), ...scalar, isKey }
    nodes.push(found)
    return found
  }
  /** `entryStart`: null for keys. What is inside a key is no value either. */
  const visit = (node: ParsedNode | null, entryStart: number | null): void => {
    if (node === null) return
    const found = add(node, entryStart === null)
    if (entryStart !== null) entries.push({ start: entryStart, value: found })
    if (!isCollection(node)) return
    for (const item of node.items as unknown[]) {
      if (!isPair(item)) {
        visit(item as ParsedNode, (item as ParsedNode).range[0])
        continue
      }
      const { key, value } = item as { key: ParsedNode | null; value: ParsedNode | null }
      visit(key, null)
      visit(value, key?.range[0] ?? value?.range[0] ?? 0)
    }
  }
  for (const { contents } of documents) visit(contents, contents?.range[0] ?? 0)
  return { nodes, entries }
}

function findComments(tokens: readonly CST.Token[], lines: Lines): StreamComment[] {
  const comments: StreamComment[] = []
  const pending: unknown[] = [...tokens]
  while (pending.length > 0) {
    const token = pending.pop()
    if (typeof token !== 'object' || token === null) continue
    const { type, offset, source } = token as { type?: unknown; offset?: unknown; source?: unknown }
    if (type === 'comment' && typeof offset === 'number' && typeof source === 'string') comments.push(lines.commentAt(offset, source))
    else pending.push(...Object.values(token).filter((part) => typeof part === 'object'))
  }
  return comments.toSorted((a, b) => a.offset - b.offset)
}

class Lines {
  readonly text: string
  readonly #starts: number[] = [0]

  constructor(text: string) {
    this.text = text
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#starts.push(at + 1)
  }

  /** Counts from 1. */
  lineAt(offset: number): number {
    let low = 0
    let high = this.#starts.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (this.#starts[middle]! <= offset) low = middle
      else high = middle
    }
    return low + 1
  }

  commentAt(offset: number, source: string): StreamComment {
    const line = this.lineAt(offset)
    const before = this.text.slice(this.#starts[line - 1], offset).replace(/^\uFEFF/, '')
    return { offset, line, text: source.replace(/^#+/, '').trim(), isAlone: before.trim() === '' }
  }
}
