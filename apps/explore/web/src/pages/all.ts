// Lists the pages in the order of reading.

import type { Page } from "../page";
import { catalogue } from "./catalogue";
import { features } from "./features";
import { gradients } from "./gradients";
import { masks } from "./masks";
import { tape } from "./tape";
import { thief } from "./thief";
import { tokens } from "./tokens";
import { twins } from "./twins";
import { yours } from "./yours";

export const pages: Page[] = [tokens, features, gradients, twins, masks, thief, yours, catalogue, tape];
