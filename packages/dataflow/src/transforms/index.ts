// All transforms by type. A new transform is a file and an entry here; its fields are in contract/dataflow/spec/transforms.ts.
import type { TransformType } from '@brokkr/contract/dataflow/spec/transforms.ts'
import { camelCase } from './camel-case.ts'
import { cast } from './cast.ts'
import { debeziumUnwrap } from './debezium-unwrap.ts'
import { extractField } from './extract-field.ts'
import { filter } from './filter.ts'
import { flatten } from './flatten.ts'
import { headersToPayload } from './headers-to-payload.ts'
import { hoistField } from './hoist-field.ts'
import { insertField } from './insert-field.ts'
import { mask } from './mask.ts'
import { remove } from './remove.ts'
import { replaceField } from './replace-field.ts'
import { router } from './router.ts'
import { select } from './select.ts'
import { snakeCase } from './snake-case.ts'
import { structFlatten } from './struct-flatten.ts'
import { timestamp } from './timestamp.ts'
import { timezone } from './timezone.ts'
import type { Transform } from './transform.ts'

export const transforms: { readonly [T in TransformType]: Transform<T> } = {
  timestamp,
  flatten,
  filter,
  mask,
  router,
  select,
  remove,
  snakeCase,
  camelCase,
  debeziumUnwrap,
  replaceField,
  headersToPayload,
  structFlatten,
  extractField,
  hoistField,
  cast,
  timezone,
  insertField,
}
