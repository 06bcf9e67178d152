// From the text a processor is given to the flow it runs: read, judged by the same rules as at admission, hashed.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { normalise } from '@brokkr/contract/dataflow/normalise.ts'
import { printProblem } from '@brokkr/contract/dataflow/problem.ts'
import { ProcessorSpec } from '@brokkr/contract/dataflow/processor-spec.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { BadStart } from './config.ts'

export interface LoadedSpec {
  readonly flow: Flow
  readonly specHash: string
  readonly orders: ProcessorSpec
}

const bytesMax = 4 << 20

export async function loadSpec(path: string, identity: { readonly namespace: string; readonly name: string }): Promise<LoadedSpec> {
  const text = await readFile(path, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    throw new BadStart(`the spec ${path} cannot be read: ${cause.code}`, { cause })
  })
  if (text.length > bytesMax) throw new BadStart(`the spec ${path} is larger than ${bytesMax} bytes`)
  const orders = ordersOf(text, path)
  const { flow, problems } = normalise(orders.spec, { kind: orders.kind, patterns: re2, ...identity })
  if (flow === undefined) throw new BadStart(`the spec ${path} is invalid:\n${problems.map((one) => `  ${printProblem(one)}`).join('\n')}`)
  const [unresolved] = flow.secrets
  if (unresolved !== undefined)
    throw new BadStart(`${unresolved.path} names secret ${unresolved.ref.name}: the operator resolves secrets before it hands a spec over`)
  return { flow, specHash: createHash('sha256').update(text).digest('hex').slice(0, 16), orders }
}

/** The operator's form, a whole object, or a bare spec. */
function ordersOf(text: string, path: string): ProcessorSpec {
  try {
    const json = JSON.parse(text) as unknown
    const isBare = typeof json === 'object' && json !== null && 'source' in json
    return ProcessorSpec.parse(isBare ? { spec: json } : json)
  } catch (cause) {
    // No part of the text: it holds secrets.
    throw new BadStart(`the spec ${path} is no JSON object with a spec`, { cause: cause instanceof SyntaxError ? undefined : cause })
  }
}
