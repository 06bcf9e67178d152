// Loads the spec file of a processor: parses it, validates it by the rules of admission, and hashes it.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { printProblem } from '@brokkr/contract/dataflow/fields/problem.ts'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { ProcessorSpec } from '@brokkr/contract/dataflow/processor-spec.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { InvalidStart } from './config.ts'

export interface LoadedSpec {
  readonly flow: Flow
  readonly specHash: string
  readonly processorSpec: ProcessorSpec
}

const maxBytes = 4 << 20

export async function loadSpec(path: string, identity: { readonly namespace: string; readonly name: string }): Promise<LoadedSpec> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new InvalidStart(`cannot read the spec ${path}: ${cause.code}; check --spec-path`, { cause })
  })
  if (text.length > maxBytes) throw new InvalidStart(`the spec ${path} is larger than ${maxBytes} bytes`)
  const processorSpec = parseProcessorSpec(text, path)
  const { flow, problems } = normalize(processorSpec.spec, { kind: processorSpec.kind, patterns: re2, ...identity })
  if (flow === undefined)
    throw new InvalidStart(`the spec ${path} is invalid:\n${problems.map((problem) => `  ${printProblem(problem)}`).join('\n')}`)
  const [unresolved] = flow.secrets
  if (unresolved !== undefined)
    throw new InvalidStart(
      `${unresolved.path} names secret ${unresolved.ref.name}: start the processor with a spec whose secrets the operator has resolved`,
    )
  return { flow, specHash: createHash('sha256').update(text).digest('hex').slice(0, 16), processorSpec }
}

/** Accepts the form that the operator writes, a whole object, or a bare spec. */
function parseProcessorSpec(text: string, path: string): ProcessorSpec {
  try {
    const json = JSON.parse(text) as unknown
    const isBare = typeof json === 'object' && json !== null && 'source' in json
    return ProcessorSpec.parse(isBare ? { spec: json } : json)
  } catch (cause) {
    // The error does not quote the text, because it contains secrets.
    throw new InvalidStart(`the spec ${path} is not a JSON object with a spec`, { cause: cause instanceof SyntaxError ? undefined : cause })
  }
}
