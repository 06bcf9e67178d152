// Renders a parsed template. Throws RenderError with the line of the tag that failed.
import { Budget, defaultLimits, type RenderLimits } from './budget.ts'
import { type EvaluationContext, evaluate, evaluateBoolean } from './evaluate.ts'
import { Scopes } from './scopes.ts'
import type { Call, Loop, Node, Position, Template } from './syntax-tree.ts'
import { RenderError } from './template-errors.ts'
import { describeKind, isList, isMap, printedLength, printValue, type Value, type ValueMap } from './values.ts'

export interface RenderInput {
  readonly parameters: ValueMap
  readonly now: Date
  readonly limits?: Partial<RenderLimits>
}

export function renderTemplate(template: Template, { parameters, now, limits }: RenderInput): string {
  const budget = new Budget({ ...defaultLimits, ...limits })
  return new Renderer(template, { scopes: new Scopes(parameters), budget, now }).render()
}

type Flow = 'next' | 'break' | 'continue'

class Renderer {
  readonly #template: Template
  readonly #context: EvaluationContext
  /** Outputs in progress: of the template, then of each macro that is being called. */
  readonly #outputs: Output[] = []

  constructor(template: Template, context: Omit<EvaluationContext, 'callMacro'>) {
    this.#template = template
    this.#context = { ...context, callMacro: (call) => this.#callMacro(call) }
  }

  render(): string {
    return this.#collect(this.#template.nodes)
  }

  #collect(nodes: readonly Node[]): string {
    const output = new Output(this.#context.budget)
    this.#outputs.push(output)
    try {
      this.#renderNodes(nodes)
      return output.toText()
    } finally {
      this.#outputs.pop()
    }
  }

  #renderNodes(nodes: readonly Node[]): Flow {
    for (const node of nodes) {
      this.#context.budget.step()
      const flow = node.is === 'text' ? this.#write(node.text) : this.#renderAt(node)
      if (flow !== 'next') return flow
    }
    return 'next'
  }

  #renderAt(node: Exclude<Node, { is: 'text' }>): Flow {
    try {
      return this.#renderNode(node)
    } catch (error) {
      throw error instanceof RenderError ? locate(error, node.at) : error
    }
  }

  #renderNode(node: Exclude<Node, { is: 'text' }>): Flow {
    switch (node.is) {
      case 'output':
        return this.#print(evaluate(this.#context, node.value))
      case 'set':
        this.#context.scopes.set(node.name, evaluate(this.#context, node.value), node.isGlobal)
        return 'next'
      case 'if': {
        const branch = node.branches.find(({ condition }) => evaluateBoolean(this.#context, condition))
        return this.#renderNodes(branch?.body ?? node.otherwise)
      }
      case 'for':
        return this.#renderLoop(node)
      case 'unsupported':
        throw new RenderError(`${node.what} is not available in templates`)
      case 'break':
      case 'continue':
      default:
        if (!this.#context.scopes.isInLoop) throw new RenderError(`${node.is} stands outside a loop`)
        return node.is
    }
  }

  #renderLoop(loop: Loop): Flow {
    const entries = listEntries(loop, evaluate(this.#context, loop.container))
    if (entries.length === 0) return this.#renderNodes(loop.otherwise)
    for (const [index, [key, value]] of entries.entries()) {
      this.#context.budget.step()
      const names = new Map<string, Value>([['loop', describeRound(index, entries.length)]])
      if (loop.key !== null) names.set(loop.key, key)
      names.set(loop.name, value)
      if (this.#context.scopes.within('loop', names, () => this.#renderNodes(loop.body)) === 'break') break
    }
    return 'next'
  }

  #callMacro({ name, args }: Call): string {
    const macro = this.#template.macros.get(name)
    if (macro === undefined) throw new RenderError(`the template has no macro ${name}`)
    const names = new Map(
      macro.parameters.map((parameter): [string, Value] => {
        const argument = args.get(parameter.name)
        const value = argument === undefined ? parameter.fallback : evaluate(this.#context, argument)
        if (value === undefined) throw new RenderError(`the macro ${name} needs the argument ${parameter.name}`)
        return [parameter.name, value]
      }),
    )
    return this.#context.budget.inMacro(() => this.#context.scopes.within('macro', names, () => this.#collect(macro.body)))
  }

  #print(value: Value): Flow {
    if (typeof value !== 'string') this.#context.budget.text(printedLength(value))
    return this.#write(printValue(value))
  }

  #write(text: string): Flow {
    this.#outputs.at(-1)?.write(text)
    return 'next'
  }
}

/** Text of the template or of one macro call; ends the rendering as soon as it is too long. */
class Output {
  readonly #budget: Budget
  readonly #parts: string[] = []
  #bytes = 0

  constructor(budget: Budget) {
    this.#budget = budget
  }

  write(text: string): void {
    this.#bytes += Buffer.byteLength(text)
    const { outputBytes } = this.#budget.limits
    if (this.#bytes > outputBytes) throw new RenderError(`the rendered text is larger than ${outputBytes} bytes`)
    this.#parts.push(text)
  }

  toText(): string {
    this.#budget.text(this.#bytes)
    return this.#parts.join('')
  }
}

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

/** Key and value of each round; keys of lists are not used. */
function listEntries({ key, container }: Loop, value: Value): readonly (readonly [Value, Value])[] {
  if (!['path', 'call', 'array', 'filtered'].includes(container.is)) throw new RenderError('for needs a name, a list or a function call')
  if (value !== null && typeof value === 'object' && isMap(value)) {
    if (key === null) throw new RenderError('for needs a name for the key and one for the value to iterate over an object')
    return [...value]
  }
  if (!isList(value) && typeof value !== 'string') throw new RenderError(`for cannot iterate over ${describeKind(value)}`)
  if (key !== null) throw new RenderError(`for takes one name to iterate over ${describeKind(value)}`)
  return (typeof value === 'string' ? splitCharacters(value) : value).map((item) => [null, item])
}

function splitCharacters(text: string): string[] {
  const characters = Array.from(text)
  // Whether such a text has more characters or more code points has no single answer, so it is refused.
  if (/[^\p{ASCII}]/u.test(text) && [...graphemes.segment(text)].length !== characters.length)
    throw new RenderError('for cannot iterate over a text with combined characters')
  return characters
}

const describeRound = (index: number, length: number): ValueMap =>
  new Map<string, Value>([
    ['index', BigInt(index + 1)],
    ['index0', BigInt(index)],
    ['first', index === 0],
    ['last', index === length - 1],
  ])

/** The innermost tag names the place. */
function locate(error: RenderError, at: Position): RenderError {
  if (error instanceof LocatedError) return error
  return new LocatedError(`line ${at.line}, column ${at.column}: ${error.message}`, { cause: error })
}

class LocatedError extends RenderError {
  override name = 'LocatedError'
}
