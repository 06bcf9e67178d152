// The desired state of an agent as a polled list.
import type { TargetStateItem } from '@brokkr/contract/deployments/deployment-object.ts'
import { openManifests, splitIntoPages } from '../../deployments/manifest-cache.ts'
import type { BrokerDeps } from '../../deps.ts'
import { textAsJson } from '../../http/response/manifests.ts'
import type { Handler } from '../../http/server/handler.ts'
import { digestDesiredState } from '../rules.ts'
import * as targetState from '../store/target-state.ts'

/** A stack that is missing from a full list counts as removed only if count and digest headers confirm the list; an incremental list never
 *  proves absence. Both headers are left out if the list may belong to another epoch than the poller's. */
export const handleTargetState: Handler<'getTargetState', BrokerDeps> = async (deps, { params, query, headers, reply }) => {
  const isFull = query.mode === 'full'
  const position = isFull ? deps.feed.getListPosition(query.seen) : null
  const items = await (isFull ? targetState.list : targetState.listNew)(deps.sql, { agent_id: params.id })
  if (isFull) {
    const { count, digest } = digestDesiredState(
      items.map(({ stack_id, rev, id, yaml_checksum }) => ({ stack_id, rev, object_id: id, yaml_checksum })),
    )
    if (position !== null && (await deps.feed.isListOfEpoch(position))) {
      reply.setHeader('x-brokkr-count', String(count))
      reply.setHeader('x-brokkr-digest', digest)
      reply.setHeader('x-brokkr-cursor', position.view.cursorText)
      reply.setHeader('x-brokkr-history', `${position.view.epoch}/${position.view.boots.boot}`)
    }
    reply.setHeader('etag', `"${digest}"`)
    if (headers['if-none-match'] === `"${digest}"`) return reply.empty(304)
  }
  const pages = [...splitIntoPages(items)]
  // A list of one page is sent at once with Content-Length. The list is complete in any case; only manifests are read in pages.
  return pages.length > 1 ? reply.pages(readPages(deps, pages)) : readPage(deps, items)
}

async function* readPages(deps: BrokerDeps, pages: readonly targetState.ListedItem[][]): AsyncGenerator<TargetStateItem[]> {
  for (const page of pages) yield await readPage(deps, page)
}

async function readPage(deps: BrokerDeps, page: readonly targetState.ListedItem[]): Promise<TargetStateItem[]> {
  const texts = await openManifests(deps, page)
  const withManifest = ({ id }: targetState.ListedItem) => {
    const [text, json] = [texts.get(id)!, deps.texts.json(id)]
    return { yaml_content: text, [textAsJson]: json && { text, json } }
  }
  return page.map((row) => ({ ...row, ...withManifest(row) }) as unknown as TargetStateItem)
}
