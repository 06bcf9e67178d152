// GET /pipelines and GET /promotions: stored objects from the caches, newest first, in pages.
import { HOLD_ANNOTATION, PIPELINE, PROMOTION } from '@brokkr/contract/pipelines/fields.ts'
import { type PipelineRecord, type PromotionRecord, phaseOf, type Stored } from '../objects.ts'
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import { authenticate } from './authenticate.ts'
import type { HooksContext } from './deps.ts'

const LIMIT_MAX = 1_000

export async function handleListPipelines(context: HooksContext, request: HookRequest): Promise<HookAnswer> {
  const namespace = await authorizeRead(context, request, 'pipelines')
  const pipelines = [...context.records.listPipelines()].filter((each) => namespace === '' || each.namespace === namespace)
  return toPage(pipelines, request, toPipelineObject)
}

export async function handleListPromotions(context: HooksContext, request: HookRequest): Promise<HookAnswer> {
  const namespace = await authorizeRead(context, request, 'promotions')
  const [pipeline, environment, phase] = ['pipeline', 'environment', 'phase'].map((name) => request.query.get(name))
  const promotions = [...context.records.listPipelines()]
    .filter((each) => (namespace === '' || each.namespace === namespace) && (!pipeline || each.name === pipeline))
    .flatMap(({ uid }) => context.records.listPromotions(uid))
    .filter((each) => (!environment || each.spec.environment === environment) && (!phase || phaseOf(each) === phase))
  return toPage(promotions, request, toPromotionObject)
}

/** Without a namespace the caller needs the right in all of them. */
async function authorizeRead(context: HooksContext, request: HookRequest, resource: 'pipelines' | 'promotions'): Promise<string> {
  const namespace = request.query.get('namespace') ?? ''
  await authenticate(context, request, {
    access: { verb: 'get', resource, namespace, name: '' },
    kind: 'action',
    pipeline: null,
    secretName: null,
  })
  return namespace
}

function toPage<T extends Stored>(all: readonly T[], request: HookRequest, toObject: (record: T) => object): HookAnswer {
  const limit = readLimit(request.query.get('limit'))
  const after = readCursor(request.query.get('cursor'))
  const rows = all
    .map((record) => ({ record, place: `${record.createdAt} ${record.key}` }))
    .filter(({ place }) => after === null || place < after)
    .toSorted((a, b) => (a.place < b.place ? 1 : -1))
  const page = rows.slice(0, limit)
  const last = page.at(-1)
  const isMore = rows.length > page.length && last !== undefined
  return {
    status: 200,
    headers: isMore ? { 'x-next-cursor': Buffer.from(last.place).toString('base64url') } : {},
    body: page.map(({ record }) => toObject(record)),
  }
}

function readLimit(text: string | null): number {
  if (text === null) return LIMIT_MAX
  if (!/^\d{1,9}$/.test(text) || Number(text) === 0) throw new Refusal(400, 'limit must be a number from 1 to 1000')
  return Math.min(LIMIT_MAX, Number(text))
}

function readCursor(text: string | null): string | null {
  if (text === null) return null
  const place = Buffer.from(text, 'base64url').toString('utf8')
  if (!/^\S{20,35} \S{1,510}$/.test(place)) throw new Refusal(400, 'the cursor is not valid')
  return place
}

function toPipelineObject(pipeline: PipelineRecord): object {
  const hold = pipeline.annotations[HOLD_ANNOTATION]
  return {
    ...PIPELINE,
    metadata: { ...toMetadata(pipeline), ...(hold === undefined ? {} : { annotations: { [HOLD_ANNOTATION]: hold } }) },
    spec: pipeline.spec.ok ? pipeline.spec.spec : null,
    status: pipeline.storedStatus,
  }
}

const toPromotionObject = (promotion: PromotionRecord): object => ({
  ...PROMOTION,
  metadata: toMetadata(promotion),
  spec: promotion.spec,
  status: promotion.storedStatus,
})

const toMetadata = ({ namespace, name, uid, generation, createdAt }: Stored): object => ({
  namespace,
  name,
  uid,
  generation,
  creationTimestamp: createdAt,
})
