// The broker as pipelines use it: the head of a stack, the status of its agents, and submissions under an idempotency key.
import { createHash } from 'node:crypto'
import { type Client, createClient } from '@brokkr/contract/client.ts'
import type { DeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'

export interface StackHead {
  readonly stackId: StackId
  /** Newest live deployment object; null: the stack has none, or a deletion marker. */
  readonly object: DeploymentObject | null
}

const ANSWER_BYTES_MAX = 16 * 1024 * 1024
const PAGE = 100
const PAGES_MAX = 10

/** Every method throws ApiError, or what the outbound client throws. */
export class BrokerClient {
  readonly #client: Client

  constructor(outbound: Outbound, access: { url: string; pak: string }) {
    this.#client = createClient({
      baseUrl: access.url,
      pak: () => access.pak,
      userAgent: 'brokkr-pipelines',
      transport: async ({ method, url, headers, body, signal }) => {
        const answer = await outbound.request({
          url,
          method: method as 'GET',
          headers,
          answerBytesMax: ANSWER_BYTES_MAX,
          ...(body === undefined ? {} : { body }),
          ...(signal === undefined ? {} : { signal }),
        })
        return {
          status: answer.status,
          header: (name) => String(answer.headers[name.toLowerCase()] ?? '') || null,
          text: () => Promise.resolve(answer.body.toString('utf8')),
        }
      },
    })
  }

  /** Null: the generator has no stack of this name. */
  async readHead(name: string, options: { content: boolean }, signal: AbortSignal): Promise<StackHead | null> {
    const stack = (await this.#client.listStacks({ query: { name } }, { signal })).find((each) => each.name === name)
    if (stack === undefined) return null
    const query = { content: options.content, limit: 1 }
    const [object = null] = await this.#client.listDeploymentObjects({ params: { id: stack.id }, query }, { signal })
    return { stackId: stack.id, object: object?.is_deletion_marker === true ? null : object }
  }

  async readAgents(id: StackId, signal: AbortSignal): Promise<readonly AgentStackStatus[]> {
    return (await this.#client.getStackStatus({ params: { id } }, { signal })).agents
  }

  /** Manifest of the newest object with this checksum; null: the stack has none among its last thousand. */
  async findManifest(name: string, checksum: string, signal: AbortSignal): Promise<string | null> {
    const head = await this.readHead(name, { content: false }, signal)
    if (head === null) return null
    let cursor: string | undefined
    for (let page = 0; page < PAGES_MAX; page++) {
      const query = { content: false, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) }
      const { body, header } = await this.#client.call('listDeploymentObjects', { params: { id: head.stackId }, query }, { signal })
      const object = body.find((each) => each.yaml_checksum === checksum && !each.is_deletion_marker)
      if (object !== undefined) return (await this.#client.getDeploymentObject({ params: { id: object.id } }, { signal })).yaml_content
      cursor = header('x-next-cursor') ?? undefined
      if (cursor === undefined) return null
    }
    return null
  }

  /** The broker answers a repeated key with the first object for a day. */
  async submit(id: StackId, submission: { manifest: string; key: string }, signal: AbortSignal): Promise<DeploymentObject> {
    const body = { yaml_content: submission.manifest }
    const hash = createHash('sha256').update(JSON.stringify(body)).digest('hex').slice(0, 8)
    const headers = { 'idempotency-key': `${submission.key}-${hash}` }
    return this.#client.createDeploymentObject({ params: { id }, body }, { signal, headers })
  }
}
